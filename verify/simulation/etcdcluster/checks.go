package etcdcluster

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"
)

const (
	maxOps     = 128
	maxRequest = 1.5 * 1024 * 1024
	maxTTL     = 9000000000
)

// check returns what a member finds wrong with a request before it does anything with it.
func check(r proto.Message) error {
	switch r := r.(type) {
	case *pb.RangeRequest:
		return checkRange(r)
	case *pb.PutRequest:
		if err := checkPut(r); err != nil {
			return err
		}
	case *pb.DeleteRangeRequest:
		if len(r.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	case *pb.TxnRequest:
		if err := checkTxn(r, maxOps); err != nil {
			return err
		}
		for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
			if _, _, err := overlaps(ops); err != nil {
				return err
			}
		}
		if onlyReads(r) {
			return nil
		}
	default:
		return nil
	}
	if proto.Size(r) > maxRequest {
		return rpctypes.ErrGRPCRequestTooLarge
	}
	return nil
}

func checkRange(r *pb.RangeRequest) error {
	if len(r.Key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	_, order := pb.RangeRequest_SortOrder_name[int32(r.SortOrder)]
	if _, target := pb.RangeRequest_SortTarget_name[int32(r.SortTarget)]; !order || !target {
		return rpctypes.ErrGRPCInvalidSortOption
	}
	return nil
}

func checkPut(r *pb.PutRequest) error {
	switch {
	case len(r.Key) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case r.IgnoreValue && len(r.Value) != 0:
		return rpctypes.ErrGRPCValueProvided
	case r.IgnoreLease && r.Lease != 0:
		return rpctypes.ErrGRPCLeaseProvided
	}
	return nil
}

func checkTxn(r *pb.TxnRequest, room int) error {
	n := max(len(r.Compare), len(r.Success), len(r.Failure))
	if n > room {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, c := range r.Compare {
		if len(c.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			if err := checkOp(op, room-n); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkOp(op *pb.RequestOp, room int) error {
	switch op := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		return checkRange(op.RequestRange)
	case *pb.RequestOp_RequestPut:
		return checkPut(op.RequestPut)
	case *pb.RequestOp_RequestDeleteRange:
		if len(op.RequestDeleteRange.GetKey()) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
		return nil
	case *pb.RequestOp_RequestTxn:
		return checkTxn(op.RequestTxn, room)
	}
	return rpctypes.ErrGRPCKeyNotFound
}

type interval struct{ from, end string }

// holds reports whether a key is in the interval. Here, and only here, an end of one zero byte does not stand for all that
// comes after.
func (i interval) holds(key string) bool {
	return key == i.from && i.end == "" || i.from <= key && key < i.end
}

// overlaps refuses a transaction that writes to a key more than once, or writes to what it deletes.
func overlaps(ops []*pb.RequestOp) (puts map[string]bool, removed []interval, err error) {
	puts = make(map[string]bool)
	for _, op := range ops {
		if r := op.GetRequestDeleteRange(); r != nil {
			removed = append(removed, interval{string(r.Key), string(r.RangeEnd)})
		}
	}
	gone := func(key string) bool {
		return slices.ContainsFunc(removed, func(r interval) bool { return r.holds(key) })
	}
	for _, op := range ops {
		r := op.GetRequestTxn()
		if r == nil {
			continue
		}
		then, thenGone, err := overlaps(r.Success)
		if err != nil {
			return nil, nil, err
		}
		instead, insteadGone, err := overlaps(r.Failure)
		if err != nil {
			return nil, nil, err
		}
		for key := range then {
			if puts[key] || gone(key) {
				return nil, nil, rpctypes.ErrGRPCDuplicateKey
			}
			puts[key] = true
		}
		for key := range instead {
			if puts[key] && !then[key] || gone(key) {
				return nil, nil, rpctypes.ErrGRPCDuplicateKey
			}
			puts[key] = true
		}
		removed = append(append(removed, thenGone...), insteadGone...)
	}
	for _, op := range ops {
		if r := op.GetRequestPut(); r != nil {
			if puts[string(r.Key)] || gone(string(r.Key)) {
				return nil, nil, rpctypes.ErrGRPCDuplicateKey
			}
			puts[string(r.Key)] = true
		}
	}
	return puts, removed, nil
}

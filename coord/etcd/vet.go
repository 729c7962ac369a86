package etcd

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that is vetted
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// maxParts is how many messages and texts an answer may have: each takes two bytes on its way, and a hundred when it is decoded. A
	// line of three hundred thousand has less.
	maxParts = 1 << 20

	// vetFrom is how long an answer must be to be vetted. A shorter one becomes no more than some megabytes.
	vetFrom = 64 << 10

	// maxNested is how deep messages may be within each other.
	maxNested = 100
)

// vetted decodes no answer that would take much more memory than it has bytes: so a server that lies ends no process.
type vetted struct{ encoding.CodecV2 }

func newVetted() vetted { return vetted{encoding.GetCodecV2("proto")} }

func (v vetted) Unmarshal(data mem.BufferSlice, into any) error {
	if m, ok := into.(proto.Message); ok && data.Len() > vetFrom {
		left, whole := maxParts, data.Materialize()
		if !fits(whole, m.ProtoReflect().Descriptor(), &left, maxNested) {
			return fmt.Errorf("the server's answer has more than %d parts", maxParts)
		}
		data = mem.BufferSlice{mem.SliceBuffer(whole)}
	}
	return v.CodecV2.Unmarshal(data, into)
}

// fits counts the parts of a message. What is not as it should be is refused later.
func fits(b []byte, of protoreflect.MessageDescriptor, left *int, depth int) bool {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return true
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
			return true
		}
		if kind == protowire.BytesType {
			if *left--; *left < 0 {
				return false
			}
			text, _ := protowire.ConsumeBytes(b)
			if f := of.Fields().ByNumber(field); f != nil && f.Message() != nil && (depth == 0 || !fits(text, f.Message(), left, depth-1)) {
				return false
			}
		}
		b = b[n:]
	}
	return true
}

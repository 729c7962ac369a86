package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/verify/servers"
)

const stampPath = "/chaos-stamp"

// zkStamps writes stamps into ZooKeeper's transaction log; the rest of the history is read from there at the end. It
// writes through every server, since one that is cut off from the others takes none.
type zkStamps struct {
	conns []*gozk.Conn
	stop  chan struct{}
	done  sync.WaitGroup

	mu   sync.Mutex
	acks []stamp
}

func stampZooKeeper(ctx context.Context, addrs []string) (*zkStamps, error) {
	z := &zkStamps{stop: make(chan struct{})}
	for i, addr := range addrs {
		conn, _, err := gozk.Connect([]string{addr}, 4*time.Second, gozk.WithLogInfo(false), gozk.WithLogger(silent{}))
		if err != nil {
			return nil, err
		}
		z.conns = append(z.conns, conn)
		for i == 0 { // the ensemble may still be electing its leader
			if _, err = conn.Create(stampPath, nil, 0, gozk.WorldACL(gozk.PermAll)); err == nil || errors.Is(err, gozk.ErrNodeExists) {
				break
			}
			if ctx.Err() != nil {
				return nil, err
			}
		}
		z.done.Go(func() { z.stamp(conn, time.Duration(10*len(addrs))*time.Millisecond) })
	}
	return z, nil
}

func (z *zkStamps) stamp(conn *gozk.Conn, every time.Duration) {
	for {
		select {
		case <-z.stop:
			return
		case <-time.After(every):
		}
		if stat, err := conn.Set(stampPath, strconv.AppendInt(nil, int64(mono()), 10), -1); err == nil {
			z.mu.Lock()
			z.acks = append(z.acks, stamp{stat.Mzxid, mono()})
			z.mu.Unlock()
		}
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func (z *zkStamps) close() {
	close(z.stop)
	for _, conn := range z.conns {
		conn.Close()
	}
	z.done.Wait()
}

// A transaction is one entry of the log.
type transaction struct {
	zxid    int64
	session string
	text    string // what was done, sometimes over several lines
}

// readTransactions puts the logs of all members together.
func readTransactions(c *servers.Cluster) ([]transaction, error) {
	java, err := servers.Java()
	if err != nil {
		return nil, err
	}
	var logged []map[int64]transaction
	for _, m := range c.Members() {
		own := map[int64]transaction{}
		logged = append(logged, own)
		logs, err := filepath.Glob(filepath.Join(m.Dir(), "data", "version-2", "log.*"))
		if err != nil {
			return nil, err
		}
		for _, log := range logs {
			dump := exec.Command(java, "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
				"-cp", filepath.Join(servers.Folder(), "zookeeper", "*"),
				"org.apache.zookeeper.server.persistence.TxnLogToolkit", "-d", log)
			text, err := dump.Output()
			if err != nil && len(text) == 0 {
				continue // a file that was begun when the server was killed
			}
			for _, t := range parseDump(text) {
				own[t.zxid] = t
			}
		}
	}
	all := agreed(logged)
	if len(all) == 0 {
		return nil, fmt.Errorf("no transactions in the logs of %s", c.Name())
	}
	return all, complete(all)
}

// agreed returns what came to pass, in order. A member that was down for long may have got a snapshot instead of the
// transactions, so no single member's log need be complete. And a leader that was stopped may have logged at the end what no
// majority has ever seen, and of which the next leader knows nothing.
func agreed(logged []map[int64]transaction) []transaction {
	all := map[int64]transaction{}
	logs := map[int64]int{} // how many members have it
	for _, own := range logged {
		for zxid, t := range own {
			all[zxid] = t
			logs[zxid]++
		}
	}
	last, settled := int64(0), map[int64]int64{} // the last leader's epoch, and what each leader surely got agreed on
	for zxid, n := range logs {
		leader := zxid >> 32
		last = max(last, leader)
		if n > len(logged)/2 {
			settled[leader] = max(settled[leader], zxid)
		}
	}
	sorted := slices.SortedFunc(maps.Values(all), func(a, b transaction) int { return cmp.Compare(a.zxid, b.zxid) })
	return slices.DeleteFunc(sorted, func(t transaction) bool {
		leader := t.zxid >> 32
		return leader < last && t.zxid > settled[leader]
	})
}

// complete checks that no transaction is missing: under one leader they are numbered one by one.
func complete(all []transaction) error {
	for i, t := range all[1:] {
		if before := all[i].zxid; t.zxid>>32 == before>>32 && t.zxid != before+1 {
			return fmt.Errorf("the logs of all members together lack what was between %#x and %#x", before, t.zxid)
		}
	}
	return nil
}

var dumped = regexp.MustCompile(`^\S+, \S+.*session (0x[0-9a-f]+) cxid 0x[0-9a-f]+ zxid 0x([0-9a-f]+) (.*)$`)

func parseDump(text []byte) []transaction {
	var all []transaction
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if m := dumped.FindStringSubmatch(lines.Text()); m != nil {
			zxid, _ := strconv.ParseInt(m[2], 16, 64)
			all = append(all, transaction{zxid, m[1], m[3]})
		} else if n := len(all); n > 0 {
			all[n-1].text += "\n" + lines.Text()
		}
	}
	return all
}

var (
	// An operation within a transaction of several: its path follows a length that is not text.
	operation = regexp.MustCompile(`(?:^multi |;)\s*(create|createContainer|create2|delete|setData):[^/]*(/[^\s,;\x00]+)`)
	alone     = regexp.MustCompile(`^(create|createContainer|create2|delete|deleteContainer|setData) '?(/[^\s,;\x00]+)(?:,(\d+),)?`)
	contender = regexp.MustCompile(`^(.*)/_c_[0-9a-f]{32}-(lock|lead|R|W|S\dof\d)-(-?\d+)$`)
)

// replay derives from the transactions when each contender stood in line.
func replay(all []transaction) *truth {
	t := &truth{}
	stands := map[string]*standing{}
	bySession := map[string]map[string]bool{}
	ofSession := map[string][]*standing{} // also those that have gone
	ended := map[string]int64{}           // sessions
	born := map[string]int64{}            // directories
	stood := map[string]bool{}            // those that have not been deleted since
	used := map[string]int64{}            // when somebody last came to a directory, or left it: it was there then
	for _, tx := range all {
		operations := operation.FindAllStringSubmatch(tx.text, -1)
		if !strings.HasPrefix(tx.text, "multi ") {
			operations = alone.FindAllStringSubmatch(tx.text, -1)
		}
		for _, o := range operations {
			what, path := o[1], o[2]
			place := contender.FindStringSubmatch(path)
			if place != nil {
				used[place[1]] = tx.zxid
			}
			switch {
			case path == stampPath && what == "setData" && len(o) > 3:
				sent, _ := strconv.ParseInt(o[3], 10, 64)
				t.stamps = append(t.stamps, stamp{tx.zxid, time.Duration(sent)})
			case place == nil && strings.HasPrefix(what, "create"):
				if what == "createContainer" && stood[path] {
					t.anew = append(t.anew, [2]int64{used[path], tx.zxid})
				}
				born[path], used[path], stood[path] = tx.zxid, tx.zxid, true
			case place == nil && strings.HasPrefix(what, "delete"):
				delete(stood, path)
			case place != nil && strings.HasPrefix(what, "create"):
				number, _ := strconv.ParseInt(place[3], 10, 64)
				line := strings.TrimPrefix(strings.TrimPrefix(place[1], "/turnwise/"), "/peer/")
				s := &standing{line: line, node: path, kind: place[2], born: tx.zxid, order: [2]int64{born[place[1]], number}, closed: ended[tx.session]}
				stands[path] = s
				t.nodes = append(t.nodes, s)
				ofSession[tx.session] = append(ofSession[tx.session], s)
				if bySession[tx.session] == nil {
					bySession[tx.session] = map[string]bool{}
				}
				bySession[tx.session][path] = true
			case place != nil && what == "delete":
				if s := stands[path]; s != nil {
					s.gone = tx.zxid
					delete(stands, path)
				}
			}
		}
		if strings.HasPrefix(tx.text, "closeSession") {
			for path := range bySession[tx.session] {
				if s := stands[path]; s != nil {
					s.gone = tx.zxid
					delete(stands, path)
				}
			}
			for _, s := range ofSession[tx.session] {
				s.closed = tx.zxid // the last time, if the first one was forgotten
			}
			ended[tx.session] = tx.zxid
			delete(bySession, tx.session)
		}
	}
	return t
}

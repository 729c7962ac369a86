package zk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// passwordOf is what ZooKeeper takes for the password of a session (ZooKeeperServer.generatePasswd): it follows from the session's
// number, by java.util.Random and a constant that stands in the source text.
func passwordOf(id int64) []byte {
	const superSecret, multiplier, mask = 0xB3415C00, 0x5DEECE66D, 1<<48 - 1
	seed := (uint64(id) ^ superSecret ^ multiplier) & mask
	var password []byte
	for range 4 {
		seed = (seed*multiplier + 0xB) & mask
		password = binary.LittleEndian.AppendUint32(password, uint32(seed>>16))
	}
	return password
}

// stolen is a connection of somebody who has no name, on the session of somebody else.
type stolen struct{ net.Conn }

// steal takes a session over, and asks for something at once: its owner comes back. It returns nil if there is none of that number.
func steal(t testing.TB, address string, id int64, xid, op int32) *stolen {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, patience)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * patience))
	var b bytes.Buffer
	password := passwordOf(id)
	for _, part := range []any{int32(0), int64(0), int32(30_000), id, int32(len(password)), password, false} {
		require.NoError(t, binary.Write(&b, binary.BigEndian, part))
	}
	s := &stolen{c}
	hello := b.Bytes()
	_, err = c.Write(slices.Concat(binary.BigEndian.AppendUint32(nil, uint32(len(hello))), hello, request(xid, op)))
	require.NoError(t, err)
	var answer struct {
		Length, Protocol, Timeout int32
		ID                        int64
	}
	if err := binary.Read(c, binary.BigEndian, &answer); err != nil || answer.Timeout <= 0 || answer.ID != id {
		c.Close()
		return nil
	}
	return s
}

func request(xid, op int32) []byte {
	b := binary.BigEndian.AppendUint32(nil, 8)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, uint32(xid)), uint32(op))
}

const (
	xidPing = -2
	opPing  = 11
	opClose = -11
)

// guessed counts back from the number of a session of mallory's own to that of the holder's, as he does who tries them all.
func (n *neighbourhood) guessed() int64 {
	n.Helper()
	mine := adminConn(n, n.cluster.Addrs()).SessionID() // all that he has to know
	holders := n.sess.identity.Load().ID
	require.Less(n, holders, mine)
	require.Less(n, mine-holders, int64(1000), "the numbers of sessions follow one another")
	return holders
}

// Whoever can connect can end any session, whatever rights he has.
func TestWhoCanConnectEndsSessionsByTheirNumbers(t *testing.T) {
	n := playNeighbours(t, rights{})
	n.waits()
	for number := n.guessed(); n.ctx.Err() == nil && n.sess.isOpen(); { // its owner takes it back, and may be quicker
		steal(t, n.cluster.Addrs()[0], number, 1, opClose)
	}
	require.NoError(t, n.answer(n.waiter).err, "the one behind is let in")
}

// He can also keep one alive whose process is dead, and then its line stays taken.
func TestWhoCanConnectKeepsSessionsByTheirNumbers(t *testing.T) {
	n := playNeighbours(t, rights{})
	n.waits()
	for _, p := range n.proxies {
		p.Blackhole()
	}
	s := steal(t, n.cluster.Addrs()[0], n.guessed(), xidPing, opPing)
	require.NotNil(t, s)
	go io.Copy(io.Discard, s)
	for until := time.Now().Add(3 * n.ttl); time.Now().Before(until); time.Sleep(n.ttl / 10) {
		_, err := s.Write(request(xidPing, opPing))
		require.NoError(t, err)
	}
	n.waits()
}

// The commands of four letters ask for no right. As it comes a server answers few of them, but its AdminServer says the same.
func TestWhoMayAskTheServerSeesLinesAndSessions(t *testing.T) {
	n := playNeighbours(t, rights{})
	c, err := net.Dial("tcp", n.cluster.Addrs()[0])
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	_, err = c.Write([]byte("dump"))
	require.NoError(t, err)
	says, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Contains(t, string(says), n.holder.Node().ID)
	require.Contains(t, string(says), fmt.Sprintf("0x%x", n.guessed()))
	n.handsOver()
}

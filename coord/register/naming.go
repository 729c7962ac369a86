package register

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// The keys of the registers.
const (
	lineKey     = "line/"    // and the line's name
	sessionKey  = "session/" // and its id
	dataKey     = "data/"    // and almost the node's id: data that is too long for the line
	firstTopic  = "first/"   // and the line's name: told when somebody else is first
	allTopic    = "all/"     // and the line's name: told when anybody comes, goes or is amended
	suspectKey  = "suspect/" // and a session's id: it seemed to be dead; see suspect.go
	epochKey    = "epoch"    // what tokens of new lines begin with
	sweeperKey  = "sweeper"  // who sweeps
	settingsKey = "settings" // the longest TTL that anybody may use, or uses; see memory.go
)

// sessionID names a session. It is random, and never used again.
type sessionID Version

func (id sessionID) String() string { return hex.EncodeToString(id[:]) }
func (id sessionID) key() string    { return sessionKey + id.String() }

func parseSessionID(text string) (id sessionID, ok bool) {
	n, err := hex.Decode(id[:], []byte(text[:min(len(text), 2*len(id))]))
	return id, err == nil && n == len(id) && len(text) == 2*len(id)
}

// sessionOf returns the session that a register belongs to. The key has its id after the slash, up to a hyphen if there is
// one.
func sessionOf(key string) sessionID {
	_, name, _ := strings.Cut(key, "/")
	name, _, _ = strings.Cut(name, "-")
	id, _ := parseSessionID(name)
	return id
}

// nodeID names a node: the n-th of a session, amended rev times. So a client that waits for the node as it was before an
// amendment finds that this one is another.
type nodeID struct {
	session sessionID
	n, rev  uint64
}

func (id nodeID) String() string {
	b := make([]byte, 0, 32)
	b = hex.AppendEncode(b, id.session[:])
	b = append(b, '-')
	b = strconv.AppendUint(b, id.n, 10)
	b = append(b, '.')
	return string(strconv.AppendUint(b, id.rev, 10))
}

// dataKey is the key of the register for data of a node that is too long for the line. put is the number of one of the
// node's data registers: see newSecret.
func (id nodeID) dataKey(put uint64) string {
	id.rev = put
	return dataKey + id.String()
}

func parseNodeID(text string) (id nodeID, ok bool) {
	session, rest, ok1 := strings.Cut(text, "-")
	n, rev, ok2 := strings.Cut(rest, ".")
	var ok3 bool
	id.session, ok3 = parseSessionID(session)
	var err1, err2 error
	id.n, err1 = strconv.ParseUint(n, 10, 64)
	id.rev, err2 = strconv.ParseUint(rev, 10, 64)
	return id, ok1 && ok2 && ok3 && err1 == nil && err2 == nil
}

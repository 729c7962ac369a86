package register

import (
	"crypto/hmac"
	"slices"
)

// A store may let somebody tell notes who may not swap: in Redis, publishing is a right of its own. So a note is a hint that
// leads to a look, unless it proves that its sender stands in the line; then it is believed, and no look is needed.
//
// For this, each driver has a pair of keys. The public one stands in each line where the driver has a node. From its own
// secret key and the other's public one, each of two drivers computes the same number, which nobody else can compute, not
// even who may read the line. A note's proof is a sum over that number and the note.
//
// Those who stand behind a node have seen it in the line when they joined. So whoever is told of a departure knows the key of
// who has gone, and the proof takes no request.

// isProven reports whether a note to a session was sent by somebody who stands in its line, or stood there, as this process
// knows it.
func (d *Driver) isProven(to sessionID, n message) bool {
	d.mu.Lock()
	c := d.clerks[n.line]
	d.mu.Unlock()
	if c == nil || n.sender == d.identity.public || !c.knows(n.sender) {
		return false
	}
	proof := d.identity.prove(n.sender, to, n.proven)
	return proof != nil && hmac.Equal(proof, n.proof)
}

// knows reports whether a key stands in the line, as it was last seen.
func (c *clerk) knows(key publicKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known != nil && c.known.line != nil && slices.ContainsFunc(c.known.line.members, func(m member) bool { return m.key == key })
}

package register

import (
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"sync"
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

const (
	keySize   = 32
	proofSize = 16
)

// publicKey is zero if its driver has no keys: then nothing that it tells is believed.
type publicKey [keySize]byte

// identity is a driver's pair of keys.
type identity struct {
	secret *ecdh.PrivateKey
	public publicKey

	mu    sync.Mutex
	pairs map[publicKey][]byte // what is shared with other drivers; nil: with that key, nothing can be
}

func newIdentity() *identity {
	i := &identity{pairs: make(map[publicKey][]byte)}
	if secret, err := ecdh.X25519().GenerateKey(rand.Reader); err == nil { // a program may forbid X25519, as GODEBUG=fips140=only does
		i.secret = secret
		i.public = publicKey(secret.PublicKey().Bytes())
	}
	return i
}

// pair returns what only this driver and the one with that key know.
func (i *identity) pair(with publicKey) []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	shared, known := i.pairs[with]
	if known || i.secret == nil {
		return shared
	}
	if key, err := ecdh.X25519().NewPublicKey(with[:]); err == nil {
		shared, _ = i.secret.ECDH(key)
	}
	for old := range i.pairs {
		if len(i.pairs) < mostRemembered {
			break
		}
		delete(i.pairs, old)
	}
	i.pairs[with] = shared
	return shared
}

// prove returns the proof that a note to a session comes from one of the two drivers of a pair. The note says from which.
// It is nil if there is none.
func (i *identity) prove(with publicKey, to sessionID, note []byte) []byte {
	shared := i.pair(with)
	if shared == nil {
		return nil
	}
	h := hmac.New(sha256.New, shared)
	h.Write(to[:])
	h.Write(note)
	return h.Sum(nil)[:proofSize]
}

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

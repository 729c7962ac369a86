package register

import (
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"sync"
)

const (
	keySize   = 32
	proofSize = 16

	// mostPairs is with how many other drivers what is shared is kept.
	mostPairs = 1000
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
		if len(i.pairs) < mostPairs {
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

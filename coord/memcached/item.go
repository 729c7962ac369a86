package memcached

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/turnwise/turnwise/coord/register"
)

// What stands in an item: the format, the mark of the memory that it belongs to, the register's version and key, and the
// value. An item that was written after the server had forgotten, by a client that did not know yet, has the old mark and
// counts as absent.
const format = 1

func encode(m *memory, key string, v register.Version, value []byte) []byte {
	b := make([]byte, 0, overhead+len(key)+len(value))
	b = append(b, format)
	b = append(b, m.mark[:]...)
	b = append(b, v[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(key)))
	b = append(b, key...)
	return append(b, value...)
}

// overhead is the size of what an item has beside the key and the value.
const overhead = 1 + 8 + 8 + 2

// decode reads an item. current is false if the item is of another memory.
func decode(m *memory, b []byte) (it register.Item, current bool, err error) {
	if len(b) < overhead || b[0] != format {
		return it, false, errForeign
	}
	if [8]byte(b[1:9]) != m.mark {
		return it, false, nil
	}
	it.Version = register.Version(b[9:17])
	size := int(binary.BigEndian.Uint16(b[17:]))
	if b = b[overhead:]; len(b) < size {
		return it, false, errForeign
	}
	it.Key, it.Value, it.Age = string(b[:size]), b[size:], -1
	return it, true, nil
}

// keyOf returns the server's key for a register. A key that the server does not take, or that is long, is hashed.
func (s *Store) keyOf(key string) string {
	plain := len(key) <= 140
	for i := 0; i < len(key) && plain; i++ {
		plain = key[i] > ' ' && key[i] < 0x7f
	}
	if plain {
		return s.root + ":" + key
	}
	sum := sha256.Sum256([]byte(key))
	return s.root + "#" + hex.EncodeToString(sum[:])
}

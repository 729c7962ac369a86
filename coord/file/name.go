//go:build linux || darwin

package file

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
)

// How long the names of files may be. Every file system takes 143 bytes. A socket's name is part of an address, which
// has room for 100 bytes or so.
const (
	longName  = 140
	shortName = 32
)

// nameOf is what the file for a key is called: the key itself where that can be, so that ls tells something. Two keys
// never share a name where upper and lower case are the same, or where names are brought into a normal form: a name has
// nothing but small letters, digits and a few signs. A slash becomes a comma, every other byte a % and two digits. What
// is longer than limit ends in ~ and a hash of the key.
//
// A name begins neither with a dot nor with a tilde: those are for files of other purposes.
func nameOf(key string, limit int) string {
	name := make([]byte, 0, 64)
	for i := range len(key) {
		switch c := key[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			name = append(name, c)
		case c == '/':
			name = append(name, ',')
		default:
			name = append(name, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	if len(name) <= limit {
		return string(name)
	}
	hash := sha256.Sum256([]byte(key))
	digits := hex.EncodeToString(hash[:])[:min(32, limit*2/3)]
	return string(name[:limit-1-len(digits)]) + "~" + digits
}

const hexDigits = "0123456789abcdef"

// shardOf is the directory that a register is in.
func shardOf(name string) int { return int(crc32.ChecksumIEEE([]byte(name)) % shards) }

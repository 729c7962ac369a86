//go:build linux || darwin

package file

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"net/url"
	"strings"
)

// longName is how long the name of a file may be. Every file system takes two bytes more.
const longName = 140

// nameOf returns the name of the file for a key: the key itself where possible, so that ls tells something. A name has
// nothing but small letters, digits and a few signs, so two keys never share a name even where upper and lower case are the
// same, or where names are normalized. A slash becomes a comma, every other byte a % and two digits. A name that would be
// longer than longName ends in ~ and a hash of the key.
//
// A name begins neither with a dot nor with a tilde: those are for files with other purposes.
func nameOf(key string) string {
	name := beginOf(key)
	if len(name) <= longName {
		return name
	}
	hash := sha256.Sum256([]byte(key))
	digits := hex.EncodeToString(hash[:16])
	return name[:longName-1-len(digits)] + "~" + digits
}

// beginOf returns what the names of all keys with a prefix begin with, except those that end in a hash.
func beginOf(prefix string) string {
	name := make([]byte, 0, 64)
	for i := range len(prefix) {
		name = appendEscaped(name, prefix[i], i == 0)
	}
	return string(name)
}

func appendEscaped(name []byte, c byte, first bool) []byte {
	switch {
	case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && !first:
		return append(name, c)
	case c == '/':
		return append(name, ',')
	default:
		return append(name, '%', hexDigits[c>>4], hexDigits[c&15])
	}
}

const hexDigits = "0123456789abcdef"

// keyOf returns the key that a name is of, unless the name ends in a hash.
func keyOf(name string) (key string, ok bool) {
	unescaped, err := url.PathUnescape(strings.ReplaceAll(name, ",", "/"))
	return unescaped, err == nil && nameOf(unescaped) == name
}

// unique returns what no other name has.
func unique() string {
	var b [6]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// isName reports whether a file may have got its name from nameOf.
func isName(name string) bool {
	return name != "" && name[0] != '.' && name[0] != '~' && consistsOf(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.,%~")
}

// isPipe reports whether a name is that of a listener's pipe: the number of its process, a dash and digits.
func isPipe(name string) bool {
	pid, unique, ok := strings.Cut(name, "-")
	return ok && pid != "" && unique != "" && consistsOf(pid, "0123456789") && consistsOf(unique, hexDigits)
}

// isBeside reports whether a name is that of a file beside a pipe, and of which pipe.
func isBeside(name string) (pipe, what string, ok bool) {
	name, dot := strings.CutPrefix(name, ".")
	pipe, what, _ = strings.Cut(name, ".")
	return pipe, what, dot && isPipe(pipe) && consistsOf(what, "abcdefghijklmnopqrstuvwxyz0123456789-")
}

func consistsOf(s, chars string) bool { return strings.Trim(s, chars) == "" }

// shards is how many directories of registers there are.
const shards = 64

// shardOf returns which directory a register is in.
func shardOf(name string) int { return int(crc32.ChecksumIEEE([]byte(name)) % shards) }

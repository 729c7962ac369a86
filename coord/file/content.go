//go:build linux || darwin

package file

import (
	"encoding/hex"
	"errors"
	"hash/crc32"
	"strconv"

	"github.com/turnwise/turnwise/coord/register"
)

// A register's file begins with a line of fixed width,
//
//	turnwise 51f0c3a97b1e6d24 9a3f00c2 0014 0000000211
//
// the version, a checksum, the length of the key and that of the value. The key follows on a line of its own, then the
// value. What comes after that is padding: a file is written over and over again, and need not be cut or grow each time.
const headLength = len("turnwise 51f0c3a97b1e6d24 9a3f00c2 0014 0000000211\n")

// longestKey is the longest key that a Store has to take.
const longestKey = 1100

// maxValue is the longest value that is read: whoever may write to the directory could have us take all memory otherwise.
const maxValue = 64 << 20

// padTo is what the size of a file is rounded up to a multiple of, so that it stays the same most of the time.
const padTo = 256

var checksums = crc32.MakeTable(crc32.Castagnoli)

// appendContent appends the content of a register's file.
func appendContent(b []byte, key string, version register.Version, value []byte) []byte {
	start := len(b)
	b = append(b, "turnwise "...)
	b = hex.AppendEncode(b, version[:])
	b = append(b, ' ')
	sum := checksum(key, version, value)
	b = hex.AppendEncode(b, []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
	b = append(b, ' ')
	b = appendNumber(b, len(key), 4)
	b = append(b, ' ')
	b = appendNumber(b, len(value), 10)
	b = append(b, '\n')
	b = append(b, key...)
	b = append(b, '\n')
	b = append(b, value...)
	for (len(b)-start)%padTo != 0 {
		b = append(b, '\n')
	}
	return b
}

func appendNumber(b []byte, n, width int) []byte {
	digits := strconv.Itoa(n)
	for range width - len(digits) {
		b = append(b, '0')
	}
	return append(b, digits...)
}

func checksum(key string, version register.Version, value []byte) uint32 {
	sum := crc32.Update(0, checksums, version[:])
	sum = crc32.Update(sum, checksums, []byte(key))
	return crc32.Update(sum, checksums, value)
}

// errDamaged says that a file is not what was written to it: half of it is there, or somebody has edited it.
var errDamaged = errors.New("the file is damaged")

// head is the first lines of a register's file.
type head struct {
	version register.Version
	sum     uint32
	key     string
	value   int // its length
}

// size is how much of the file counts.
func (h head) size() int { return headLength + len(h.key) + 1 + h.value }

func parseHead(b []byte) (h head, err error) {
	if len(b) < headLength || string(b[:9]) != "turnwise " || b[25] != ' ' || b[34] != ' ' || b[39] != ' ' || b[headLength-1] != '\n' {
		return h, errDamaged
	}
	if _, err := hex.Decode(h.version[:], b[9:25]); err != nil {
		return h, errDamaged
	}
	sum, err1 := strconv.ParseUint(string(b[26:34]), 16, 32)
	key, err2 := strconv.ParseUint(string(b[35:39]), 10, 16)
	value, err3 := strconv.ParseUint(string(b[40:headLength-1]), 10, 34)
	if err1 != nil || err2 != nil || err3 != nil || value > maxValue || len(b) <= headLength+int(key) || b[headLength+int(key)] != '\n' {
		return h, errDamaged
	}
	h.sum, h.key, h.value = uint32(sum), string(b[headLength:headLength+int(key)]), int(value)
	return h, nil
}

// from returns what a whole file holds. The value is a part of b.
func (h head) from(b []byte) (register.Item, error) {
	if len(b) < h.size() {
		return register.Item{}, errDamaged
	}
	value := b[h.size()-h.value : h.size() : h.size()]
	if checksum(h.key, h.version, value) != h.sum {
		return register.Item{}, errDamaged
	}
	return register.Item{Key: h.key, Value: value, Version: h.version, Age: -1}, nil
}

// parse takes a whole file.
func parse(b []byte) (register.Item, error) {
	h, err := parseHead(b)
	if err != nil {
		return register.Item{}, err
	}
	return h.from(b)
}

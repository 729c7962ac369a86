package zkwire

import (
	"encoding/binary"
	"io"
)

// RawByte is one byte of a frame.
type RawByte byte

// Frame makes a frame as it goes over the wire, with its length, for tests that play one of the two sides. An int takes
// four bytes, and a string has its length before it.
func Frame(parts ...any) []byte {
	b := make([]byte, 4)
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = binary.BigEndian.AppendUint32(b, uint32(p))
		case int64:
			b = binary.BigEndian.AppendUint64(b, uint64(p))
		case string:
			b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
			b = append(b, p...)
		case RawByte:
			b = append(b, byte(p))
		case bool:
			b = append(b, 0)
		}
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// ReadFrame returns the next frame, without its length.
func ReadFrame(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head))
	_, err := io.ReadFull(r, body)
	return body, err
}

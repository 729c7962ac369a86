package postgres

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/turnwise/turnwise/coord/register"
)

// channel returns the channel on which the notes of a topic are told. Anybody who may connect to the database may send to
// any channel that he can name, so the name is a secret of those who may read the table. PostgreSQL takes 63 bytes.
func (m *memory) channel(topic string) string {
	h := hmac.New(sha256.New, []byte(m.table))
	h.Write([]byte(topic))
	return "turnwise_" + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// piece is how many bytes of a note go into one notification: encoded, and with what comes before them, they stay below
// 8,000.
const piece = 5900

// maxNote is the most that a note holds.
const maxNote = 7000

// encode returns the channels and the texts of notes. A text is a number, then "+" if more of the note follows or "=" if
// not, then base64. The number is there because PostgreSQL sends equal notifications of one transaction only once.
func (m *memory) encode(notes []register.Note) (channels, texts []string) {
	for _, n := range notes {
		channel, rest := m.channel(n.Topic), n.Text
		for more := true; more; {
			part, mark := rest, "="
			if more = len(rest) > piece; more {
				part, mark = rest[:piece], "+"
			}
			rest = rest[len(part):]
			channels = append(channels, channel)
			texts = append(texts, strconv.Itoa(len(texts))+mark+base64.RawStdEncoding.EncodeToString(part))
		}
	}
	return channels, texts
}

// decode returns a piece of a note, and whether more of it follows.
func decode(text string) (part []byte, more bool, err error) {
	i := strings.IndexAny(text, "+=")
	if i < 0 {
		return nil, false, fmt.Errorf("%q is no note of ours", text)
	}
	part, err = base64.RawStdEncoding.AppendDecode([]byte{}, []byte(text[i+1:]))
	return part, text[i] == '+', err
}

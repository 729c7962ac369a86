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
	h := hmac.New(sha256.New, []byte(m.identity))
	h.Write([]byte(topic))
	return "turnwise_" + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// maxPiece is how many bytes of a note go into one notification: encoded, and with what comes before them, they stay below
// 8,000.
const maxPiece = 5900

// A text is a number, a sign, and base64. The number is there because PostgreSQL sends equal notifications of one transaction
// only once. The sign says which part of a note it is, since others may say something before a note of ours, but nothing
// between its two parts: these come together, from one transaction.
const (
	wholeNote  = '='
	firstHalf  = '+'
	secondHalf = '-'
)

// encode returns the channels and the texts of notes.
func (m *memory) encode(notes []register.Note) (channels, texts []string) {
	say := func(channel string, part byte, piece []byte) {
		channels = append(channels, channel)
		texts = append(texts, strconv.Itoa(len(texts))+string(part)+base64.RawStdEncoding.EncodeToString(piece))
	}
	for _, n := range notes {
		channel := m.channel(n.Topic)
		if len(n.Text) <= maxPiece {
			say(channel, wholeNote, n.Text)
			continue
		}
		say(channel, firstHalf, n.Text[:maxPiece])
		say(channel, secondHalf, n.Text[maxPiece:])
	}
	return channels, texts
}

// decode returns a piece of a note, and which part it is.
func decode(text string) (part byte, piece []byte, err error) {
	i := strings.IndexAny(text, string([]byte{wholeNote, firstHalf, secondHalf}))
	if i < 0 {
		return 0, nil, fmt.Errorf("%q is no note of ours", text)
	}
	piece, err = base64.RawStdEncoding.AppendDecode([]byte{}, []byte(text[i+1:]))
	return text[i], piece, err
}

package nats

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
)

const greeting = `INFO {"server_id":"N","server_name":"N","version":"2.15.2","proto":1,"max_payload":1048576,"headers":true,"jetstream":true,"api_lvl":5}` + "\r\n"

// speaks is the address of something that speaks NATS, and answers each request as told.
func speaks(t *testing.T, answer func(subject string, data []byte, say func(string))) string {
	return storecheck.Serve(t, func(c net.Conn) {
		io.WriteString(c, greeting)
		sids := map[string]string{}
		for r := bufio.NewReader(c); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			words := strings.Fields(line)
			switch words[0] {
			case "PING":
				io.WriteString(c, "PONG\r\n")
			case "SUB":
				sids[words[1]] = words[len(words)-1]
			case "PUB", "HPUB":
				n, _ := strconv.Atoi(words[len(words)-1])
				data := make([]byte, n+2)
				if _, err := io.ReadFull(r, data); err != nil {
					return
				}
				reply := words[2]
				var sid string
				for subject, id := range sids {
					if strings.HasPrefix(reply, strings.TrimSuffix(subject, "*")) {
						sid = id
					}
				}
				answer(words[1], data[:n], func(text string) {
					fmt.Fprintf(c, "MSG %s %s %d\r\n", reply, sid, len(text))
					io.WriteString(c, text)
					io.WriteString(c, "\r\n")
				})
			}
		}
	})
}

var created = time.Now()

func ofOurs(m map[string]any, run string) string {
	c := (&Store{config: config{root: defaultRoot}}).streamOf("00000000000000aa", run)
	info := map[string]any{"config": c, "created": created, "ts": time.Now(), "total": 0, "state": map[string]any{"last_seq": 1}}
	for k, v := range m {
		info[k] = v
	}
	text, _ := json.Marshal(info)
	return string(text)
}

// sayOfNothing answers as a server does whose stream is ours and has no messages, and that takes none.
func sayOfNothing(subject string, say func(string)) {
	switch {
	case strings.Contains(subject, "STREAM.INFO"):
		say(ofOurs(nil, "N"))
	case strings.Contains(subject, "MSG.GET"):
		say(`{"error":{"code":404,"err_code":10037}}`)
	case strings.Contains(subject, "STREAM."):
		say(`{"error":{"code":400,"err_code":1}}`)
	default:
		say(`{"error":{"code":400,"err_code":10071}}`)
	}
}

// An answer that is short on its way may be large when it is decoded, and a list may have no end.
func TestAnAnswerOfNothingTakesLittleMemory(t *testing.T) {
	for name, answer := range map[string]func() string{
		"many subjects of a stream": func() string { return `{"config":{"subjects":[""` + strings.Repeat(`,""`, 4<<20) + `]}}` },
		"many kinds of metadata": func() string {
			var b strings.Builder
			b.WriteString(`{"config":{"metadata":{"":""`)
			for n := 0; b.Len() < 20<<20; n++ {
				fmt.Fprintf(&b, `,"%x":""`, n)
			}
			b.WriteString("}}}")
			return b.String()
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := answer()
			address := speaks(t, func(_ string, _ []byte, say func(string)) { say(text) })
			storecheck.Bounded(t, 200, func() {
				for limit := 3 * time.Second; ; limit *= 2 { // on a busy machine the answer takes longer
					s, err := Open(within(t, limit), address)
					if err == nil {
						s.Close()
					}
					if err != nil && strings.Contains(err.Error(), "parts") {
						return
					}
					if err == nil || limit > 20*time.Second {
						t.Errorf("it should say that the answer has too many parts: %v", err)
						return
					}
				}
			})
		})
	}
}

// The library takes headers apart as they come, whoever they are for.
func TestHeadersWithoutNumberTakeLittleMemory(t *testing.T) {
	headers := []byte("NATS/1.0\r\n")
	for n := 0; len(headers) < 40<<20; n++ {
		headers = fmt.Appendf(headers, "%x:\r\n", n)
	}
	headers = append(headers, "\r\n\r\n"...)
	address := storecheck.Serve(t, func(c net.Conn) {
		io.WriteString(c, greeting)
		for r := bufio.NewReader(c); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			switch words := strings.Fields(line); {
			case len(words) == 1: // PING
				io.WriteString(c, "PONG\r\n")
			case len(words) > 2 && words[0] == "SUB":
				fmt.Fprintf(c, "HMSG %s %s %d %[3]d\r\n", strings.NewReplacer("*", "x", ">", "x").Replace(words[1]), words[len(words)-1], len(headers)-2)
				c.Write(headers)
			}
		}
	})
	storecheck.Bounded(t, 100, func() {
		s, err := Open(within(t, 6*time.Second), address)
		if t.Log(err); err == nil {
			s.Close()
			t.Error("it was opened")
		}
	})
}

// A server may say at each page that there are more.
func TestAListWithoutEndTakesLittleMemory(t *testing.T) {
	was := mostKeys
	mostKeys = 100_000
	t.Cleanup(func() { mostKeys = was })
	pages := 0
	m := memory{id: "00000000000000aa"}
	subjects := map[string]uint64{}
	for i := range 10_000 {
		subjects[m.subject(defaultRoot, fmt.Sprint("line/", i))] = 1
	}
	page := ofOurs(map[string]any{"total": 1 << 60, "state": map[string]any{"last_seq": 1, "subjects": subjects}}, "N")
	address := speaks(t, func(subject string, data []byte, say func(string)) {
		if strings.Contains(subject, "STREAM.INFO") && strings.Contains(string(data), "subjects_filter") {
			pages++
			say(page)
			return
		}
		sayOfNothing(subject, say)
	})
	s, err := Open(within(t, 10*time.Second), address)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	storecheck.Bounded(t, 200, func() {
		err := s.List(within(t, time.Minute), "line/", func(register.Item) bool { return true })
		if err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("it should say that there are too many: %v", err)
		}
	})
	t.Log(pages, "pages")
}

// The server gives a hundred thousand subjects at a time, in order, of those that there are when it is asked. With each page some of the
// first have gone, as the messages of emptied registers go. Seen on NATS 2.15.2: hundreds that stood all the time were missing.
func TestWhatGoesWhileItIsListedHidesNothing(t *testing.T) {
	const page = 100
	m := memory{id: "00000000000000aa"}
	var subjects []string
	for i := range 1000 {
		subjects = append(subjects, m.subject(defaultRoot, fmt.Sprintf("session/%04d", i)))
	}
	slices.Sort(subjects)
	for name, goes := range map[string]int{"none": 0, "few": 3, "more than a page reaches back": 25} {
		t.Run(name, func(t *testing.T) {
			gone := 0
			address := speaks(t, func(subject string, data []byte, say func(string)) {
				var ask struct {
					Filter string `json:"subjects_filter"`
					Offset int    `json:"offset"`
				}
				if !strings.Contains(subject, "STREAM.INFO") || json.Unmarshal(data, &ask) != nil || ask.Filter == "" {
					sayOfNothing(subject, say)
					return
				}
				all := subjects[gone:]
				gone = min(gone+goes, 300)
				is := map[string]uint64{}
				for _, subject := range all[min(ask.Offset, len(all)):min(ask.Offset+page, len(all))] {
					is[subject] = 1
				}
				say(ofOurs(map[string]any{"total": len(all), "state": map[string]any{"last_seq": 1, "subjects": is}}, "N"))
			})
			s, err := Open(within(t, 10*time.Second), address)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			c, err := s.link.get(within(t, 10*time.Second), s.life)
			if err != nil {
				t.Fatal(err)
			}
			known, err := s.known.Current()
			if err != nil {
				t.Fatal(err)
			}
			keys, _, err := s.keys(within(t, 10*time.Second), c, known, "session/")
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(keys)
			if all := slices.Compact(slices.Clone(keys)); len(all) != len(keys) {
				t.Errorf("%d of %d are named more than once", len(keys)-len(all), len(keys))
			}
			for _, subject := range subjects[gone:] {
				key, _ := m.keyOf(defaultRoot, subject)
				if _, named := slices.BinarySearch(keys, key); !named {
					t.Errorf("%s stands all the time, and is missing", key)
				}
			}
		})
	}
}

// After a restart several requests ask at once which memory there is. An answer may come late, when one of the others has written.
func TestWhatIsSeenWhileTheServerIsAskedIsNoLoss(t *testing.T) {
	var known atomic.Pointer[memory]
	address := speaks(t, func(subject string, _ []byte, say func(string)) {
		if m := known.Load(); m != nil {
			m.last.Saw(9)
		}
		sayOfNothing(subject, say)
	})
	s, err := Open(within(t, 10*time.Second), address)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := s.link.get(within(t, 10*time.Second), s.life)
	if err != nil {
		t.Fatal(err)
	}
	remembered(t, s)
	m, err := s.known.Current()
	if err != nil {
		t.Fatal(err)
	}
	known.Store(m)
	if err := s.recognize(within(t, 10*time.Second), c, m); err != nil {
		t.Error(err)
	}
	if err := s.recognize(within(t, 10*time.Second), c, m); !errors.Is(err, register.ErrForgot) {
		t.Errorf("the stream has less than was seen before it was asked about: %v", err)
	}
}

package nats

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// publishes and subscribes are the rights that the documentation says a user needs.
var publishes = []string{"turnwise.r.>", "$JS.API.STREAM.INFO.turnwise", "$JS.API.STREAM.CREATE.turnwise", "$JS.API.STREAM.DELETE.*", "$JS.API.STREAM.MSG.GET.turnwise"}

var subscribes = []string{"turnwise.told.>", "turnwise.inbox.>"}

func permissions(publish, subscribe []string) string {
	list := func(all []string) string {
		if len(all) == 0 {
			return `{ deny: ">" }`
		}
		return `["` + strings.Join(all, `", "`) + `"]`
	}
	return fmt.Sprintf("permissions: { publish: %s, subscribe: %s }", list(publish), list(subscribe))
}

// neighbours are two clients of turnwise, and a stranger who has these rights and no others.
type neighbours struct {
	*servers.Member
	a, b     *coord.Client
	stranger *natsgo.Conn
	denied   chan error
}

const strangersInbox = "other.inbox"

func neighbour(t *testing.T, publish, subscribe []string) *neighbours {
	t.Helper()
	t.Parallel()
	n := &neighbours{denied: make(chan error, 100)}
	n.Member = servers.NATS(t, servers.Config("authorization { users: [",
		"{ user: turnwise, password: ours, "+permissions(publishes, subscribes)+" }",
		"{ user: stranger, password: his, "+permissions(publish, append(subscribe, strangersInbox+".>"))+" } ] }")).Member(0)
	connect := func() *coord.Client {
		return storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) {
			return Connect(ctx, "nats://turnwise:ours@"+n.Addr(), WithTTL(4*time.Second), WithLongestTTL(4*time.Second), WithLogger(storecheck.Logger(t)))
		})
	}
	n.a, n.b = connect(), connect()
	var err error
	n.stranger, err = natsgo.Connect("nats://stranger:his@"+n.Addr(), natsgo.CustomInboxPrefix(strangersInbox),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) { n.denied <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.stranger.Close)
	return n
}

// asks has the stranger ask for something, and returns the answer.
func (n *neighbours) asks(t *testing.T, subject, body string) string {
	t.Helper()
	m, err := n.stranger.Request(subject, []byte(body), 10*time.Second)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	return string(m.Data)
}

// listens has the stranger listen.
func (n *neighbours) listens(t *testing.T, subject string) <-chan *natsgo.Msg {
	t.Helper()
	heard := make(chan *natsgo.Msg, 10_000)
	if _, err := n.stranger.ChanSubscribe(subject, heard); err != nil {
		t.Fatal(err)
	}
	if err := n.stranger.Flush(); err != nil {
		t.Fatal(err)
	}
	return heard
}

// mayNot has him try what he has no right to.
func (n *neighbours) mayNot(t *testing.T, subject, body string) {
	t.Helper()
	if err := n.stranger.Publish(subject, []byte(body)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-n.denied:
		if !errors.Is(err, natsgo.ErrPermissionViolation) {
			t.Errorf("%s: %v", subject, err)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("he may publish to %s", subject)
	}
}

// known is the memory that the clients have.
func (n *neighbours) known(t *testing.T) *memory {
	t.Helper()
	s, err := Open(within(t, 20*time.Second), "nats://turnwise:ours@"+n.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m, err := s.known.Current()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (n *neighbours) subject(t *testing.T, line string) string {
	return n.known(t).subject(defaultRoot, "line/"+line)
}

func TestAStrangerWithoutRights(t *testing.T) {
	n := neighbour(t, nil, nil)
	for _, subject := range []string{n.subject(t, "orders"), "turnwise.told.x", "turnwise.inbox.x", "$JS.API.STREAM.DELETE." + defaultRoot} {
		n.mayNot(t, subject, "")
	}
	storecheck.ShutsOut(t, n.a, n.b, "orders")
}

func TestAStrangerWhoHearsWhatIsTold(t *testing.T) {
	n := neighbour(t, nil, []string{"turnwise.told.>"})
	heard := n.listens(t, "turnwise.told.>")
	storecheck.ShutsOut(t, n.a, n.b, "orders")
	for end := time.After(10 * time.Second); ; {
		select {
		case m := <-heard:
			if len(m.Data) > 0 {
				t.Errorf("he hears %q", m.Data)
			}
			if key, _ := n.known(t).keyOf(defaultRoot, m.Header.Get("Nats-Subject")); key != "line/orders" {
				continue
			}
		case <-end:
			t.Error("he hears of no line")
		}
		break
	}
}

func TestAStrangerWhoHearsWhatIsSaid(t *testing.T) {
	for _, subject := range []string{"turnwise.r.>", "turnwise.inbox.>"} {
		t.Run(subject, func(t *testing.T) {
			n := neighbour(t, nil, []string{subject})
			heard := n.listens(t, subject)
			storecheck.ShutsOut(t, n.a, n.b, "orders")
			// A line has the names of the machines in it; where it is read, it is in base64.
			host, err := os.Hostname()
			if err != nil {
				t.Fatal(err)
			}
			for end := time.After(10 * time.Second); ; {
				select {
				case m := <-heard:
					var says struct{ Message struct{ Data []byte } }
					_ = json.Unmarshal(m.Data, &says)
					if !strings.Contains(string(m.Data)+string(says.Message.Data), host) {
						continue
					}
				case <-end:
					t.Error("he sees no line")
				}
				break
			}
			n.mayNot(t, strings.TrimSuffix(subject, ">")+"x", "")
		})
	}
}

// The server tells of what is asked of JetStream, and who listens there hears what is asked. What the server finds for a line it tells to
// nobody but who has asked.
func TestAStrangerWhoHearsOfWhatIsAsked(t *testing.T) {
	for _, where := range []string{"$JS.EVENT.ADVISORY.>", "$JS.API.>"} {
		t.Run(where, func(t *testing.T) {
			n := neighbour(t, nil, []string{where})
			heard := n.listens(t, where)
			subject := n.subject(t, "orders")
			storecheck.ShutsOut(t, n.a, n.b, "orders") // which is asked for before it is there, and when it is
			seen := false
			for end := time.After(10 * time.Second); !seen; {
				select {
				case m := <-heard:
					seen = strings.Contains(string(m.Data), subject)
				case <-end:
					t.Fatal("he sees no line")
				}
			}
			host, err := os.Hostname()
			if err != nil {
				t.Fatal(err)
			}
			for len(heard) > 0 {
				m := <-heard
				var says struct{ Response string }
				var answer struct{ Message struct{ Data []byte } }
				_ = json.Unmarshal(m.Data, &says)
				_ = json.Unmarshal([]byte(says.Response), &answer)
				if strings.Contains(string(m.Data)+string(answer.Message.Data), host) {
					t.Errorf("he sees what a line says: %s", answer.Message.Data)
				}
			}
			n.mayNot(t, subject, "")
		})
	}
}

// accounts are two clients of turnwise in an account of their own, and a stranger in another one, or in the server's.
func accounts(t *testing.T, exports, imports, who string) *neighbours {
	t.Helper()
	t.Parallel()
	n := &neighbours{denied: make(chan error, 100)}
	n.Member = servers.NATS(t, servers.Config("accounts: {",
		"OURS: { jetstream: enabled, "+exports+" users: [ { user: turnwise, password: ours, "+permissions(publishes, subscribes)+" } ] }",
		"THEIRS: { jetstream: enabled, "+imports+" users: [ { user: stranger, password: his } ] }",
		"SYS: { users: [ { user: system, password: his } ] } }", "system_account: SYS")).Member(0)
	connect := func() *coord.Client {
		return storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) {
			return Connect(ctx, "nats://turnwise:ours@"+n.Addr(), WithTTL(4*time.Second), WithLongestTTL(4*time.Second), WithLogger(storecheck.Logger(t)))
		})
	}
	n.a, n.b = connect(), connect()
	var err error
	if n.stranger, err = natsgo.Connect("nats://" + who + ":his@" + n.Addr()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.stranger.Close)
	return n
}

// Another account is another world: what he does there under our names stays there. What ours exports, such as the right to ask, is
// answered in his.
func TestAStrangerOfAnotherAccount(t *testing.T) {
	n := accounts(t, `exports: [ { service: "$JS.API.INFO" }, { stream: "turnwise.told.>" } ],`,
		`imports: [ { service: { account: OURS, subject: "$JS.API.INFO" }, to: "ours.info" }, { stream: { account: OURS, subject: "turnwise.told.>" } } ],`, "stranger")
	told := n.listens(t, "turnwise.told.>")
	subject := n.subject(t, "orders")
	h := storecheck.Locked(t, n.a, "orders")
	select {
	case <-told: // what is exported he hears
	case <-time.After(20 * time.Second):
		t.Error("he hears of nothing")
	}
	if says := n.asks(t, "ours.info", ""); !strings.Contains(says, "account_info") {
		t.Errorf("he may not ask what is exported: %s", says)
	}
	for _, to := range []string{subject, "turnwise.told.x", "ours.info", "$JS.API.INFO"} {
		if err := n.stranger.PublishRequest(to, subject, []byte("nonsense")); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{"$JS.API.STREAM.DELETE.", "$JS.API.STREAM.PURGE."} {
		if says := n.asks(t, subject+defaultRoot, ""); !strings.Contains(says, "stream not found") {
			t.Errorf("%s: %s", subject, says)
		}
	}
	storecheck.IsBusy(t, n.b, "orders")
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	storecheck.ShutsOut(t, n.a, n.b, "orders")
}

// The server's own account is its operator's.
func TestAStrangerOfTheSystemAccount(t *testing.T) {
	n := accounts(t, "", "", "system")
	storecheck.Emptied(t, n.a, n.b, func() { n.asks(t, "$JS.API.ACCOUNT.PURGE.OURS", "") })
}

func TestAStrangerWhoMayTell(t *testing.T) {
	n := neighbour(t, []string{"turnwise.told.>"}, nil)
	h := storecheck.Locked(t, n.a, "orders")
	for i := range 200 {
		m := natsgo.NewMsg("turnwise.told.x")
		m.Header.Set(notesHeader, []string{"nonsense!", "", "AAAA", strings.Repeat("A", 10_000)}[i%4])
		if err := n.stranger.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	storecheck.IsBusy(t, n.b, "orders")
	if err := h.Release(); err != nil {
		t.Error(err)
	}
}

func TestAStrangerWhoMayReadTheStream(t *testing.T) {
	n := neighbour(t, []string{"$JS.API.STREAM.INFO.turnwise", "$JS.API.STREAM.MSG.GET.turnwise"}, nil)
	h := storecheck.Locked(t, n.a, "orders")
	says := n.asks(t, "$JS.API.STREAM.MSG.GET."+defaultRoot, fmt.Sprintf(`{"last_by_subj":%q}`, n.subject(t, "orders")))
	if !strings.Contains(says, `"data"`) {
		t.Errorf("he sees %s", says)
	}
	n.mayNot(t, n.subject(t, "orders"), "")
	storecheck.IsBusy(t, n.b, "orders")
	if err := h.Release(); err != nil {
		t.Error(err)
	}
}

func TestAStrangerWhoMayPublishToRegisters(t *testing.T) {
	n := neighbour(t, []string{"turnwise.r.>"}, nil)
	n.asks(t, n.subject(t, "fresh"), "nonsense")
	storecheck.SpoilsOneLine(t, n.a, n.b, "fresh")
	// Whatever he writes to a line is the line.
	storecheck.LineTaken(t, n.a, n.b, func() { n.asks(t, n.subject(t, "orders"), strings.Repeat("\x00", 8)) })
}

func TestAMessageThatIsNoRegisterHarmsNoOther(t *testing.T) {
	n := neighbour(t, []string{"turnwise.r.>"}, nil)
	n.asks(t, n.subject(t, "short"), "x")
	storecheck.SpoilsOneLine(t, n.a, n.b, "short")
	h := storecheck.Locked(t, n.a, "orders")
	storecheck.ListsTheOthers(t, n.b, "orders")
	if err := h.Release(); err != nil {
		t.Error(err)
	}
}

// hears returns the subject of a line, which whoever hears what is told can see.
func (n *neighbours) hears(t *testing.T, line string) string {
	t.Helper()
	heard := n.listens(t, "turnwise.told.>")
	storecheck.ShutsOut(t, n.a, n.b, line)
	for end := time.After(10 * time.Second); ; {
		select {
		case m := <-heard:
			if subject := m.Header.Get("Nats-Subject"); subject == n.subject(t, line) {
				return subject
			}
		case <-end:
			t.Fatal("he hears of no line")
		}
	}
}

// The server asks nobody whether he may publish where he wants the answer.
func TestAStrangerWhoHasAnswersSentToALine(t *testing.T) {
	n := neighbour(t, []string{"$JS.API.INFO"}, []string{"turnwise.told.>"})
	subject := n.hears(t, "spoilt")
	n.mayNot(t, subject, "")
	h := storecheck.Locked(t, n.a, "spoilt")
	if err := n.stranger.PublishRequest("$JS.API.INFO", subject, nil); err != nil {
		t.Fatal(err)
	}
	storecheck.SpoilsOneLine(t, n.b, n.a, "spoilt")
	if err := h.Err(); err != nil {
		t.Errorf("the holder, beside whom nobody was let in: %v", err)
	}
}

// What shows that the stream has lost nothing is a message, too, and an answer in its place shows as much.
func TestAStrangerWhoHasAnswersSentToTheFirstMessageEndsNoHold(t *testing.T) {
	n := neighbour(t, []string{"$JS.API.STREAM.MSG.GET.turnwise"}, nil)
	h := storecheck.Locked(t, n.a, "orders")
	first := n.known(t).first
	n.mayNot(t, first, "")
	for range 3 {
		if err := n.stranger.PublishRequest("$JS.API.STREAM.MSG.GET.turnwise", first, []byte(`{"seq":1}`)); err != nil {
			t.Fatal(err)
		}
		if err := n.stranger.FlushTimeout(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		storecheck.ShutsOut(t, n.a, n.b, "other")
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
}

// Nor does it matter what stands where Open tries its rights: an answer may be empty.
func TestAStrangerWhoHasAnAnswerSentToWhereRightsAreTriedKeepsNobodyOut(t *testing.T) {
	n := neighbour(t, []string{"$JS.API.STREAM.CREATE.HIS", "$JS.API.CONSUMER.CREATE.HIS.C", "$JS.API.CONSUMER.MSG.NEXT.HIS.C", "$JS.API.STREAM.MSG.GET.turnwise"}, nil)
	n.asks(t, "$JS.API.STREAM.CREATE.HIS", `{"name":"HIS","storage":"memory","subjects":["his"]}`) // an operator may have made both
	n.asks(t, "$JS.API.CONSUMER.CREATE.HIS.C", `{"stream_name":"HIS","config":{"name":"C","durable_name":"C","ack_policy":"explicit"}}`)
	subject := n.known(t).subject(defaultRoot, "rights")
	n.mayNot(t, subject, "")
	if err := n.stranger.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.HIS.C", subject, []byte(`{"batch":1,"no_wait":true}`)); err != nil {
		t.Fatal(err)
	}
	storecheck.Eventually(t, "the answer is stored", func() bool {
		return strings.Contains(n.asks(t, "$JS.API.STREAM.MSG.GET.turnwise", fmt.Sprintf(`{"last_by_subj":%q}`, subject)), `"seq"`)
	})
	n.known(t)
}

// Who may write one line, and hears that the stream is made, can be quicker than who makes it. What he writes later takes that away.
func TestAStrangerWhoWritesBeforeTheFirstMessageEndsNoHold(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t).Member(0)
	nc := operator(t, m)
	early := &memory{id: newID()}
	cfg, err := json.Marshal((&Store{config: config{root: defaultRoot}}).streamOf(early.id, nc.ConnectedServerId()))
	if err != nil {
		t.Fatal(err)
	}
	writes := func() {
		t.Helper()
		if answer, err := nc.Request(early.subject(defaultRoot, "line/his"), make([]byte, 8), 10*time.Second); err != nil || strings.Contains(string(answer.Data), `"error"`) {
			t.Fatal(err, answer)
		}
	}
	if answer, err := nc.Request("$JS.API.STREAM.CREATE."+defaultRoot, cfg, 10*time.Second); err != nil || strings.Contains(string(answer.Data), `"error"`) {
		t.Fatal(err, answer)
	}
	writes()
	s := opened(t, m)
	if now := remembered(t, s); now.ID != early.id {
		t.Fatalf("it is the memory %v, not %q", now, early.id)
	}
	it := put(t, s, "line/orders", "x")
	writes()
	if got, err := s.Read(within(t, 10*time.Second), "line/orders"); err != nil || got.Version != it.Version {
		t.Errorf("there is %v, %v", got, err)
	}
	if got, err := opened(t, m).Read(within(t, 10*time.Second), "line/orders"); err != nil || got.Version != it.Version {
		t.Errorf("who comes then finds %v, %v", got, err)
	}
}

func TestAStrangerWhoMayMakeAStreamOfHisOwn(t *testing.T) {
	n := neighbour(t, []string{"$JS.API.STREAM.CREATE.COPY", "$JS.API.STREAM.MSG.GET.COPY", "$JS.API.STREAM.CREATE.HIS", "his"}, nil)
	storecheck.ShutsOut(t, n.a, n.b, "orders")
	makes := func(name, config string) {
		t.Helper()
		if says := n.asks(t, "$JS.API.STREAM.CREATE."+name, fmt.Sprintf(`{"name":%q,"storage":"memory",%s}`, name, config)); strings.Contains(says, `"error"`) {
			t.Fatal(says)
		}
	}
	// A copy of ours shows him what we store, and under which subjects.
	makes("COPY", `"sources":[{"name":"turnwise"}]`)
	storecheck.Eventually(t, "he sees our messages", func() bool {
		return strings.Contains(n.asks(t, "$JS.API.STREAM.MSG.GET.COPY", `{"seq":1}`), `"subject":"turnwise.r.`)
	})
	// And what his own publishes once more goes where he says.
	subject := n.subject(t, "orders")
	n.mayNot(t, subject, "")
	makes("HIS", fmt.Sprintf(`"subjects":["his"],"republish":{"src":"his","dest":%q}`, subject))
	storecheck.LineTaken(t, n.a, n.b, func() { n.asks(t, "his", strings.Repeat("\x00", 8)) })
}

// Who makes a consumer of our stream sees what it has. Where one of another stream is to deliver, the server asks him for no right. But it
// delivers only where somebody listens to that very subject, and nobody does to a line's.
func TestAStrangerWhoMayMakeConsumers(t *testing.T) {
	n := neighbour(t, []string{"$JS.API.STREAM.CREATE.HIS", "$JS.API.CONSUMER.CREATE.>", "his"}, nil)
	n.asks(t, "$JS.API.STREAM.CREATE.HIS", `{"name":"HIS","storage":"memory","subjects":["his"]}`) // an operator may have made it
	storecheck.ShutsOut(t, n.a, n.b, "orders")
	makes := func(stream, name, more string) {
		t.Helper()
		config := fmt.Sprintf(`{"stream_name":%q,"config":{"name":%q,"ack_policy":"none"%s}}`, stream, name, more)
		if says := n.asks(t, "$JS.API.CONSUMER.CREATE."+stream+"."+name, config); strings.Contains(says, `"error"`) {
			t.Fatal(says)
		}
	}
	seen, err := n.stranger.SubscribeSync(strangersInbox + ".seen")
	if err != nil {
		t.Fatal(err)
	}
	makes("turnwise", "c", fmt.Sprintf(`,"deliver_subject":%q`, strangersInbox+".seen"))
	if _, err := seen.NextMsg(10 * time.Second); err != nil {
		t.Errorf("he sees nothing of ours: %v", err)
	}
	subject := n.subject(t, "orders")
	n.mayNot(t, subject, "")
	makes("HIS", "push", fmt.Sprintf(`,"deliver_subject":%q`, subject))
	n.asks(t, "his", "nonsense")
	storecheck.ShutsOut(t, n.a, n.b, "orders")
}

// Who may publish to a line is answered, where he wants.
func TestAStrangerWhoMayPublishToOneLineSpoilsOthers(t *testing.T) {
	n := neighbour(t, []string{"turnwise.r.*.*." + base64.RawURLEncoding.EncodeToString([]byte("line/his"))}, nil)
	other := n.subject(t, "orders")
	n.mayNot(t, other, "")
	if err := n.stranger.PublishRequest(n.subject(t, "his"), other, []byte("nonsense")); err != nil {
		t.Fatal(err)
	}
	storecheck.Eventually(t, "another line is spoilt", func() bool {
		_, err := mutex.New(n.a, "orders").TryLock(within(t, 10*time.Second))
		return errors.Is(err, coord.ErrDenied)
	})
}

// An answer is stored wherever he says: in the register of a session, or in one that everybody reads who comes.
func TestAStrangerWhoHasAnAnswerSentToWhatAllShare(t *testing.T) {
	for _, key := range []string{"session", "settings", "epoch"} {
		t.Run(key, func(t *testing.T) {
			n := neighbour(t, []string{"turnwise.r.*.*." + base64.RawURLEncoding.EncodeToString([]byte("line/his"))}, nil)
			h := storecheck.Locked(t, n.a, "orders")
			register := key
			if key == "session" {
				nodes, err := n.a.Line(within(t, 10*time.Second), "orders")
				if err != nil || len(nodes) != 1 {
					t.Fatal(nodes, err)
				}
				id, _, _ := strings.Cut(nodes[0].ID, "-")
				register += "/" + id
			}
			known := n.known(t)
			to := known.subject(defaultRoot, register)
			n.mayNot(t, to, "")
			if err := n.stranger.PublishRequest(known.subject(defaultRoot, "line/his"), to, []byte("nonsense")); err != nil {
				t.Fatal(err)
			}
			if key == "session" { // which writes over it
				time.Sleep(10 * time.Second)
				storecheck.IsBusy(t, n.b, "orders")
				if err := errors.Join(h.Err(), h.Release()); err != nil {
					t.Error(err)
				}
				return
			}
			storecheck.Eventually(t, "nobody new gets in", func() bool {
				c, err := Connect(within(t, 10*time.Second), "nats://turnwise:ours@"+n.Addr(), WithTTL(4*time.Second), WithLongestTTL(4*time.Second))
				if err == nil {
					defer c.Close()
					_, err = mutex.New(c, "fresh").TryLock(within(t, 3*time.Second))
				}
				return err != nil
			})
		})
	}
}

// Nor does the server ask whether he may ask JetStream for what the answer then asks for.
func TestAStrangerWhoHasAnAnswerSentToJetStreamDeletesTheStream(t *testing.T) {
	n := neighbour(t, []string{"$JS.API.STREAM.CREATE.HIS", "$JS.API.CONSUMER.CREATE.HIS.C", "$JS.API.CONSUMER.MSG.NEXT.HIS.C"}, nil)
	n.asks(t, "$JS.API.STREAM.CREATE.HIS", `{"name":"HIS","storage":"memory","subjects":["his"]}`) // an operator may have made both
	n.asks(t, "$JS.API.CONSUMER.CREATE.HIS.C", `{"stream_name":"HIS","config":{"name":"C","durable_name":"C","ack_policy":"explicit"}}`)
	n.mayNot(t, "$JS.API.STREAM.DELETE.turnwise", "")
	storecheck.Emptied(t, n.a, n.b, func() {
		if err := n.stranger.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.HIS.C", "$JS.API.STREAM.DELETE.turnwise", []byte(`{"batch":1,"no_wait":true}`)); err != nil {
			t.Error(err)
		}
		_ = n.stranger.Flush()
	})
}

// Nor does it ask whether he may publish where a snapshot goes.
func TestAStrangerWhoMayTakeSnapshots(t *testing.T) {
	n := neighbour(t, []string{"$JS.API.STREAM.SNAPSHOT.turnwise"}, nil)
	storecheck.ShutsOut(t, n.a, n.b, "orders")
	takes := func(to string) {
		t.Helper()
		ask := fmt.Sprintf(`{"deliver_subject":%q,"chunk_size":1024}`, to)
		storecheck.Eventually(t, "he is not refused", func() bool {
			return !strings.Contains(n.asks(t, "$JS.API.STREAM.SNAPSHOT.turnwise", ask), `"error"`)
		})
	}
	seen, err := n.stranger.SubscribeSync(strangersInbox + ".snapshot")
	if err != nil {
		t.Fatal(err)
	}
	takes(seen.Subject)
	if m, err := seen.NextMsg(20 * time.Second); err != nil || len(m.Data) == 0 {
		t.Errorf("he sees nothing: %v", err)
	}
	subject := n.subject(t, "spoilt")
	n.mayNot(t, subject, "")
	takes(subject)
	storecheck.Eventually(t, "the line is spoilt", func() bool {
		_, err := n.a.Line(within(t, 10*time.Second), "spoilt")
		return errors.Is(err, driver.ErrDenied)
	})
	storecheck.ShutsOut(t, n.a, n.b, "orders")
}

func TestAStrangerWhoMayRestoreStreams(t *testing.T) {
	n := neighbour(t, []string{"$JS.API.STREAM.RESTORE.*"}, nil)
	s := &Store{config: config{root: defaultRoot}}
	body, err := json.Marshal(map[string]any{"config": s.streamOf(n.known(t).id, ""), "state": map[string]any{}})
	if err != nil {
		t.Fatal(err)
	}
	stream := defaultRoot
	if says := n.asks(t, "$JS.API.STREAM.RESTORE."+stream, string(body)); !strings.Contains(says, `"error"`) {
		t.Errorf("he may put another stream in the place of ours: %s", says)
	}
	storecheck.ShutsOut(t, n.a, n.b, "orders")
}

func TestAStrangerWhoMayDeleteStreams(t *testing.T) {
	n := neighbour(t, []string{"$JS.API.STREAM.DELETE.*"}, nil)
	stream := defaultRoot
	storecheck.Emptied(t, n.a, n.b, func() { n.asks(t, "$JS.API.STREAM.DELETE."+stream, "") })
}

func TestAStrangerWhoMayPurge(t *testing.T) {
	n := neighbour(t, []string{"$JS.API.STREAM.PURGE.*", "$JS.API.STREAM.MSG.DELETE.*"}, nil)
	h := storecheck.Locked(t, n.a, "orders")
	stream := defaultRoot
	if says := n.asks(t, "$JS.API.STREAM.PURGE."+stream, ""); !strings.Contains(says, `"error"`) {
		t.Errorf("he may purge: %s", says)
	}
	for seq := range 10 {
		if says := n.asks(t, "$JS.API.STREAM.MSG.DELETE."+stream, fmt.Sprintf(`{"seq":%d}`, seq+1)); !strings.Contains(says, `"error"`) {
			t.Errorf("he may delete: %s", says)
		}
	}
	storecheck.IsBusy(t, n.b, "orders")
	if err := h.Release(); err != nil {
		t.Error(err)
	}
}

func TestAStrangerWhoMayChangeStreams(t *testing.T) {
	n := neighbour(t, []string{"$JS.API.STREAM.UPDATE.*"}, nil)
	h := storecheck.Locked(t, n.a, "orders")
	known := n.known(t)
	s := &Store{config: config{root: defaultRoot}}
	cfg := s.streamOf(known.id, known.run)
	cfg.MaxMessages = 1 // all but one are thrown away
	body, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if says := n.asks(t, "$JS.API.STREAM.UPDATE."+defaultRoot, string(body)); strings.Contains(says, `"error"`) {
		t.Fatal(says)
	}
	storecheck.EndsSoon(t, h)
	// Nobody uses the stream until an operator has seen to it.
	_, err = Open(within(t, 10*time.Second), "nats://turnwise:ours@"+n.Addr())
	if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "somebody has changed the stream") {
		t.Errorf("%v", err)
	}
}

func TestAStrangerWhoMayMakeStreams(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t).Member(0)
	js := jetStream(t, m)
	if _, err := js.AddStream(&natsgo.StreamConfig{Name: "HIS", Subjects: []string{"turnwise.>"}}); err != nil {
		t.Fatal(err)
	}
	refused(t, driver.ErrDenied, "another stream of this account takes what is published under turnwise.r", m.URL())
	if err := js.DeleteStream("HIS"); err != nil {
		t.Fatal(err)
	}
	opened(t, m)
}

// Who may publish to our inboxes, and hears which there are, answers in the server's place.
func TestAStrangerWhoMayAnswer(t *testing.T) {
	n := neighbour(t, []string{"turnwise.inbox.>"}, []string{"turnwise.inbox.>"})
	if _, err := n.stranger.Subscribe("turnwise.inbox.>", func(m *natsgo.Msg) {
		if string(m.Data) != "{}" {
			_ = n.stranger.Publish(m.Subject, []byte("{}"))
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := n.stranger.Flush(); err != nil {
		t.Fatal(err)
	}
	// The server's own answer comes first here, and a second one to the same question counts for nothing.
	storecheck.ShutsOut(t, n.a, n.b, "orders")
}

// Each right that the documentation names is needed, and Open says that one is lacking.
func TestEachRightIsNeeded(t *testing.T) {
	t.Parallel()
	lines := []string{"authorization { users: [", "{ user: all, password: p, " + permissions(publishes, subscribes) + " }"}
	var users []string
	for i := range publishes {
		some := append(append([]string{}, publishes[:i]...), publishes[i+1:]...)
		lines = append(lines, fmt.Sprintf("{ user: p%d, password: p, %s }", i, permissions(some, subscribes)))
		users = append(users, fmt.Sprint("p", i))
	}
	for i := range subscribes {
		some := append(append([]string{}, subscribes[:i]...), subscribes[i+1:]...)
		lines = append(lines, fmt.Sprintf("{ user: s%d, password: p, %s }", i, permissions(publishes, some)))
		users = append(users, fmt.Sprint("s", i))
	}
	m := servers.NATS(t, servers.Config(append(lines, "] }")...)).Member(0)
	for range 2 { // with a stream, and before there is one
		for _, user := range users {
			refused(t, driver.ErrDenied, "lacks a right", "nats://"+user+":p@"+m.Addr())
		}
		s, err := Open(within(t, 10*time.Second), "nats://all:p@"+m.Addr())
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
}

func TestManyOpen(t *testing.T) {
	m := servers.NATS(t, servers.Shared()).Member(0)
	for range 5 {
		var all []*Store
		for range 20 {
			s, err := Open(within(t, 20*time.Second), m.URL(), WithRoot("manyopen"))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		for _, s := range all {
			s.Close()
		}
	}
}

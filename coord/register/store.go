package register

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Store is what a system must be able to do to carry turnwise's recipes. It keeps registers, each a value under a key, and
// swaps the value of one if nobody has swapped it since it was read. Package storetest checks what these comments ask for.
//
// A key is 1 to 1,100 bytes of UTF-8 without control characters; a store encodes what its system cannot take. A value is any
// bytes: usually a few hundred, 100 kB for a line of ten thousand. It may have none, and the register is not empty then: only
// the zero Version says that it is. The caller changes no bytes that it has given or got.
//
// A Store is safe for concurrent use. Every call returns within 100 ms of the end of its ctx, which may have no deadline. An
// error that no retry can mend (credentials, a table of another layout) wraps driver.ErrDenied, or driver.ErrMissing if there is no
// such database; after any other the caller tries again, and paces itself. What is returned beside an error counts only with ErrConflict.
type Store interface {
	// Read returns what stands in a register, no staler than the call. For an empty register, only the Key is set.
	Read(ctx context.Context, key string) (Item, error)

	// Swap replaces what stands in a register if its version is s.Old:
	//
	//	the version is     Swap returns                    and
	//	s.Old              s.Key, s.Value and s.Next       the notes are told
	//	s.Next             the same, with the Age so far   nothing is done: an earlier try of this swap was applied
	//	neither            what stands there, ErrConflict  nothing is done, but see Reserve
	//	s.Old, reserved    what stands there, ErrConflict  nothing is done
	//
	// The first row is for both if s.Old is s.Next: both are zero then, and nothing is to be written.
	//
	// ErrTooLarge says that the swap is not applied. After any other error it may be, now or later, but only once, and within
	// an hour: a swap that makes a register cannot tell that this was there and is gone. So a store sends no swap again whose
	// outcome is open. The caller does.
	//
	// s.Notes are told if and only if the swap is applied, each once, and never before it. A listener hears the notes of one
	// register in the order of its swaps. A swap without notes costs no more than the write.
	Swap(ctx context.Context, s Swap) (Item, error)

	// List calls yield once with each register that is not empty and whose key begins with prefix, in any order, until yield
	// returns false; then List returns nil. A register that stands all the time is never missing. One that is swapped meanwhile
	// may be shown as it stood at any time since the call, and one that is made or emptied meanwhile may be left out. yield may
	// take its time, and call the store. After an error the list is worth nothing.
	List(ctx context.Context, prefix string, yield func(Item) bool) error

	// Listen calls hear with each note that is told to a topic from now on, one at a time, and with nil whenever notes may have
	// been lost: after a reconnect, or when there were too many. A nil too many costs a look, and one that is missing may cost
	// a waiter seconds. Listen returns once the listening has begun. It lasts until stop is called, whatever becomes of ctx,
	// and also when the store has forgotten. Once stop has returned, hear is not called any more. stop may be called after
	// Close. hear does not block, does not call the store or stop, and does not keep the note. Several may listen to a topic.
	//
	// A store that cannot tell always returns ErrMute, and the driver polls.
	Listen(ctx context.Context, topic string, hear func(note []byte)) (stop func(), err error)

	// Memory returns what the store remembers; see [Memory]. The driver asks for it before each session.
	Memory(ctx context.Context) (Memory, error)

	// Strength returns what the system promises: Restart, Failover, Tokens and WakeUp of driver.Strength. The driver adds Order
	// and Death. It is constant, and needs no I/O.
	Strength() driver.Strength

	// Close frees what the store uses in this process. Calls under way may go on to their ends, and later ones fail. A second
	// Close does nothing.
	Close() error
}

// Item is what stands in a register.
type Item struct {
	Key     string
	Value   []byte
	Version Version

	// Age is how long ago it was swapped in, by the store's own clock, rounded down. It is negative if the store has no clock.
	// It tells a client that comes late how long a session has been silent.
	Age time.Duration

	// Clock is what the clock that Age goes by said when the store answered, as the time since any moment that is the same for
	// all registers and clients. So Clock less Age is when it was swapped in. Clock comes with a Read of a register that is not
	// empty, and with a Swap that asks for it and is applied; elsewhere it may be zero. It is always zero if the store has no
	// clock, or several. Who asks often can tell by it which of two things came first, and whether the clock was set meanwhile.
	Clock time.Duration

	// Made is how long ago the register was made that has been swapped since, by a clock that no client sets, rounded down but never to
	// zero; zero if the store cannot tell. A store that tells no Age tells it if it can: what stands in a register that somebody has made,
	// and may not have changed since, is not older than that.
	Made time.Duration
}

// Swap is the change of one register.
type Swap struct {
	Key       string
	Old, Next Version // the zero Version stands for an empty register
	Value     []byte  // nil if Next is zero
	Notes     []Note

	// Reserve is set by a client that has lost several times in a row. By names the client, and is the same in all swaps of a
	// process. If the swap conflicts again, nobody but By may swap this register for that long, or until By has done so; others
	// get ErrConflict meanwhile, though they know what stands there, and can reserve nothing. Otherwise clients near the store
	// could shut out one far from it for ever. Nothing can be reserved for the zero By. A store whose clients are all equally
	// near ignores Reserve, and any store may for a register that is empty. A reservation that seems to last for more than
	// MostReserve is none: the store's clock was set back.
	By      Version
	Reserve time.Duration

	// Clock asks for [Item.Clock], in a swap without notes that replaces one value by another.
	Clock bool

	// Whose is what an operator may be shown beside the register: who is first in a line. It is one line of text, may be empty,
	// and says no more than the value. A store whose system has no place for it ignores it.
	Whose string
}

type renewalKey struct{}

// ForRenewal returns a context for the request that renews a session. All holds of the session live by that: a store on which requests
// wait for each other, such as for a connection, lets this one wait for none.
func ForRenewal(ctx context.Context) context.Context {
	return context.WithValue(ctx, renewalKey{}, true)
}

// IsRenewal reports whether a request renews a session.
func IsRenewal(ctx context.Context) bool { return ctx.Value(renewalKey{}) != nil }

// MostReserve is longer than any client reserves a register.
const MostReserve = 10 * time.Second

// Note is what a swap tells those who listen to a topic. A topic has the form of a key; a text is 1 to 7,000 bytes, any. Others
// than those who may swap may be able to tell notes, too: the driver believes none that does not prove where it comes from.
type Note struct {
	Topic string
	Text  []byte
}

// Version tells two contents of a register apart. The client that swaps chooses it, and it never comes again. So a swap that
// is sent twice is applied once, and one that arrives late fails, even if the register was deleted and created again
// meanwhile. A version that counts up would ensure neither.
type Version [8]byte

// NewVersion returns a version that was never used before.
func NewVersion() (v Version) {
	for v.IsZero() {
		rand.Read(v[:])
	}
	return v
}

// IsZero reports whether it is the version of an empty register.
func (v Version) IsZero() bool { return v == Version{} }

// Memory is what a store remembers. It changes when the store may have forgotten swaps that it had answered: it was
// restarted without its data, or a server that lags behind has taken over. From then on every other call of a Store does
// nothing and returns ErrForgot, until its Memory has been called again. So no client goes on unaware, and each process
// finds out by itself.
type Memory struct {
	// ID names the memory. It is the same for all clients, and no other memory ever has it.
	ID string

	// For is how long the store has remembered everything, by its own clock, rounded down; Forever if it never forgets. As
	// long as this is less than the longest TTL, somebody may believe in a hold that the store has forgotten, so nobody is
	// granted one. It is negative if the clock says that the memory has not begun yet, since it was set back: then only who has
	// seen this memory for so long himself is granted anything.
	For time.Duration
}

// Forever is the memory of a store that does not forget.
const Forever time.Duration = math.MaxInt64

// Presence is a Store that knows by itself whether a process lives, because the kernel tells it. A session in it needs no
// renewal and has no TTL: it lasts as long as the process that opened it.
type Presence interface {
	Store

	// Keep keeps a key until release is called or this process ends, however it ends: neither the end of ctx nor Close ends the
	// keeping, and a child process does not inherit it. Keep returns ErrConflict if the key is kept already, be it by this
	// process. The key need not have a register, and does not get one.
	Keep(ctx context.Context, key string) (release func(), err error)

	// Unkept waits until nobody keeps a key, and returns nil within milliseconds of that. If nobody keeps it now, that is at
	// once: to ask who lives, the driver gives it 5 ms.
	Unkept(ctx context.Context, key string) error
}

// Sure is a Store that says each time that notes may have been lost: whoever listens hears all that is told, or nil, within ten
// seconds or so of whatever kept it away. Who waits there looks by himself once in a TTL, and elsewhere every two seconds; and a session
// on which somebody only waits is renewed seldom.
type Sure interface {
	Store

	// LosesNoNoteUnsaid is this promise. It is not called.
	LosesNoNoteUnsaid()
}

// Reconnecting is a Store that connects again by itself. The server may be started anew meanwhile, perhaps with an older disk, and no request
// fails. So the store says since when the server runs: after that nobody enters before his session has been renewed.
type Reconnecting interface {
	Store

	// RunsSince returns since when the server is certain to have run that has answered last, by time.Now. An answer of a later run is not
	// returned before this says so. The zero time says that it is not known.
	RunsSince() time.Time
}

// Errors that a Store may return, wrapped together with the system's own error.
var (
	// ErrConflict says that a register was swapped by somebody else.
	ErrConflict = errors.New("the register was swapped meanwhile")

	// ErrForgot says that the store may have forgotten swaps.
	ErrForgot = driver.ErrForgot

	// ErrMute says that a store cannot tell of swaps.
	ErrMute = errors.New("the store does not tell of swaps")

	// ErrTooLarge says that a value is larger than the store can keep.
	ErrTooLarge = errors.New("the value is too large for the store")
)

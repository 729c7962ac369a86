package register

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Store is what a system must be able to do to carry turnwise's recipes: keep registers, each a value under a key, and
// swap the value of one if nobody has swapped it since it was read. Package storetest checks what these comments ask for.
//
// A key is 1 to 1,100 bytes of UTF-8 without control characters; a store encodes what its system cannot take. A value is
// any bytes, usually a few hundred, and 100 kB in a line of ten thousand.
//
// It is safe for concurrent use. Every call ends within 100 ms of its ctx. An error that no retry can mend (credentials, a
// table of another layout) wraps driver.ErrDenied; after any other the caller tries again.
type Store interface {
	// Read returns what stands in a register, no staler than the call. If nothing does, only the Key is set.
	Read(ctx context.Context, key string) (Item, error)

	// Swap replaces what stands in a register if its version is s.Old, and returns what stands there then. If the version
	// is s.Next already, an earlier try of the same swap was applied: that is success, too. If it is neither, it returns
	// ErrConflict together with what stands there. After any other error it is open whether, and when, the swap is
	// applied, unless it is ErrTooLarge: then it is not.
	//
	// s.Notes are told if, and only if, the swap is applied, and not before. To one listener they come in the order of
	// the swaps of a register. A swap without notes costs no more than the write.
	Swap(ctx context.Context, s Swap) (Item, error)

	// List calls yield with each register whose key begins with prefix, in any order, until yield returns false. What is
	// swapped meanwhile may be shown as it was before or after; what stands all the time is never missing.
	List(ctx context.Context, prefix string, yield func(Item) bool) error

	// Listen has hear called with each note that is told to a topic from now on, one at a time, and with nil whenever some
	// may have been lost: after a reconnect, or when there were too many. It returns when the listening has begun, and it
	// lasts until stop, whatever becomes of ctx; hear is not called any more when stop returns. hear does not block, and
	// does not call the store. A store that cannot tell returns ErrMute, always, and the driver polls.
	Listen(ctx context.Context, topic string, hear func(note []byte)) (stop func(), err error)

	// Memory says what the store remembers: see there.
	Memory(ctx context.Context) (Memory, error)

	// Strength is what the system promises, see package driver: Restart, Failover, Tokens and WakeUp. The driver adds the
	// Order and how a Death is noticed. It is constant, and needs no I/O.
	Strength() driver.Strength

	// Close frees what the store uses in this process.
	Close() error
}

// Item is what stands in a register.
type Item struct {
	Key     string
	Value   []byte // the caller does not change it
	Version Version

	// Age is how long ago it was swapped in, by the store's own clock, rounded down. It is negative if the store has no
	// clock. It tells one who comes later for how long nothing has been heard of a session.
	Age time.Duration
}

// Swap is what a register is to become.
type Swap struct {
	Key       string
	Old, Next Version // the zero Version stands for an empty register
	Value     []byte  // nil if Next is zero
	Notes     []Note

	// Reserve is set by one who has lost several times in a row, and By says who that is, the same for all that a process
	// swaps. If the swap conflicts again, nobody but By may swap this register for that long, or until By has done so:
	// those who are near the store would otherwise keep one who is far from it for ever. Others get ErrConflict meanwhile.
	// A store whose clients are all as near as each other ignores it.
	By      Version
	Reserve time.Duration
}

// Note is what a swap tells to those who listen to a topic. A topic is like a key; a text is at most 7,000 bytes.
type Note struct {
	Topic string
	Text  []byte
}

// Version tells two contents of a register apart. Whoever swaps chooses it, and it never comes again. So a swap that is
// sent twice is applied once, and one that comes late finds that it is late, even if the register was deleted and made
// anew meanwhile. A version that counts would do neither.
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

// Memory is what a store remembers. It is different from before when the store may have forgotten swaps that it had
// answered: it was restarted without its data, or another server has taken over that lags behind. From then on every
// other call returns ErrForgot, and does nothing, until Memory has been called again: so nobody goes on unaware.
type Memory struct {
	// ID names it.
	ID string

	// For is how long it has remembered everything, by the store's own clock: Forever for a store that never forgets. Until
	// the longest TTL has passed, somebody may believe in a hold that the store has forgotten, so nobody is granted one.
	For time.Duration
}

// Forever is the memory of a store that does not forget.
const Forever time.Duration = math.MaxInt64

// Keeper is a Store that knows by itself whether a process lives, since the kernel tells. A session in it needs no renewal
// and has no TTL: it lasts as long as the process that opened it.
type Keeper interface {
	Store

	// Keep keeps a key until release is called or this process has ended, however it ended. It returns ErrConflict if it is
	// kept already. The key need not have a register.
	Keep(ctx context.Context, key string) (release func(), err error)

	// Unkept waits until nobody keeps a key.
	Unkept(ctx context.Context, key string) error
}

// Errors that a Store may return. Wrap them together with the system's own words.
var (
	// ErrConflict says that a register was swapped by somebody else.
	ErrConflict = errors.New("the register was swapped meanwhile")

	// ErrForgot says that the store may have forgotten swaps.
	ErrForgot = errors.New("the store may have forgotten what it had stored")

	// ErrMute says that a store cannot tell of swaps.
	ErrMute = errors.New("the store does not tell of swaps")

	// ErrTooLarge says that a value is larger than the store can keep.
	ErrTooLarge = errors.New("the value is too large for the store")
)

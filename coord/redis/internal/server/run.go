package server

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Known is the memory that the caller of Run goes by, as storekit.Known has it.
type Known interface {
	Current() (Memory, error) // or why there is none
	Forget(Memory) bool       // the server has another one by now; is that news?
}

// Run runs a guarded script in the memory that the caller goes by. The caller learns from known.Forget when the server turns
// out to have another one, and Run then returns the error of known.Current.
func (s *Server) Run(ctx context.Context, known Known, what *Script, keys, args []string) (rueidis.RedisMessage, error) {
	for tries := 0; ; tries++ {
		m, err := known.Current()
		if err != nil {
			return rueidis.RedisMessage{}, err
		}
		reply, err := s.runIn(ctx, m, s.lastHistory(), what, keys, args)
		if !errors.Is(err, register.ErrForgot) {
			return reply, err
		}
		if tries == 3 {
			return reply, errors.New("what the server remembers changes all the time")
		}
		// The mark may just have to be written again: a replica that attaches gives the server another replication id.
		now, err := s.Recall(ctx)
		if err != nil {
			return reply, err
		}
		if now.id != m.id && known.Forget(m) {
			s.Log.Warn("redis: the server may have forgotten what it had stored: it was restarted or emptied, or another has taken over",
				"address", s.Address, "was", m.id, "is", now.id)
		}
	}
}

// RunIn runs a guarded script in a certain memory. If the server has another by now, the script does nothing, and the error
// is register.ErrForgot. After any other error it is open what the script did. KEYS of the script begin with the mark, before keys, and
// its ARGV with what the caller knows, before args.
func (s *Server) RunIn(ctx context.Context, m Memory, what *Script, keys, args []string) (rueidis.RedisMessage, error) {
	reply, err := s.runIn(ctx, m, s.lastHistory(), what, keys, args)
	if !errors.Is(err, register.ErrForgot) {
		return reply, err
	}
	// The mark may just have to be written again, as in Run.
	now, err := s.Recall(ctx)
	switch {
	case err != nil:
		return reply, err
	case now.id != m.id:
		return reply, register.ErrForgot
	}
	return s.runIn(ctx, m, now.history, what, keys, args)
}

// lastHistory returns the replication id that the server had when it was looked at last.
func (s *Server) lastHistory() string {
	if last := s.history.Load(); last != nil {
		return *last
	}
	return "" // no memory is known either
}

func (s *Server) runIn(ctx context.Context, m Memory, history string, what *Script, keys, args []string) (rueidis.RedisMessage, error) {
	conn := s.way(ctx)
	reply, err := conn.run(ctx, what, append([]string{s.mark}, keys...), m.id+" "+history, args)
	if err == nil && reply.IsInt64() {
		if n, _ := reply.AsInt64(); n == 0 {
			err = register.ErrForgot
			if conn != s.conn {
				conn.drop() // it may lead to a server that has been replaced
			}
		}
	}
	return reply, err
}

// Do runs a script without a guard: what it does must be right whatever the server has forgotten.
func (s *Server) Do(ctx context.Context, what *Script, key, first string, more ...string) (rueidis.RedisMessage, error) {
	return s.way(ctx).run(ctx, what, []string{key}, first, more)
}

// way is the connection for a request.
func (s *Server) way(ctx context.Context) *connection {
	if register.IsRenewal(ctx) && s.aside.comes(ctx) {
		return s.aside
	}
	return s.conn
}

// Micros reads an age or a moment in an answer. It is never negative, even if the server's clock was set back.
func Micros(us rueidis.RedisMessage) time.Duration {
	n, _ := us.AsInt64()
	return storekit.Micros(n)
}

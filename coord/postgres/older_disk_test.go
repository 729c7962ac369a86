package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// Somebody only reads, while others write.
func TestWhoHasReadMoreRecentlyThanADiskIsOldNoticesThat(t *testing.T) {
	t.Parallel()
	m := durable(t)
	s := opened(t, m.URL())
	put(t, s, register.Item{Key: "session/1"}, "rests")
	m.KeepDisk(t)
	ctx := within(t, time.Minute)
	look := func() (err error) {
		for range 20 { // the server may not be ready yet, or was started anew
			if _, err = s.Read(ctx, "session/1"); err == nil || errors.Is(err, register.ErrForgot) {
				return err
			}
			time.Sleep(100 * time.Millisecond)
		}
		return err
	}
	if err := look(); err != nil {
		t.Fatal(err)
	}
	query(t, m.URL(), `CREATE TABLE others AS SELECT generate_series(1, 1000)`)
	if err := look(); err != nil {
		t.Fatal(err)
	}
	m.PutBackDisk(t)
	if err := look(); !errors.Is(err, register.ErrForgot) {
		t.Errorf("from an older disk: %v", err)
	}
}

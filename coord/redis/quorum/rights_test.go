package quorum

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/verify/servers"
)

// The rights are those of one Redis. If one of them is missing on every server, that is said when the store is opened, not
// when somebody holds.
func TestAUserNeedsTheRightsOfOneRedis(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	var addresses []string
	for _, a := range cluster.Addrs() {
		addresses = append(addresses, "redis://u:sesame@"+a)
	}
	acl := func(rules string) {
		for _, a := range cluster.Addrs() {
			redistest.CLI(t, a, append([]string{"ACL", "SETUSER", "u", "reset", "on", ">sesame"}, strings.Fields(rules)...)...)
		}
	}
	acl(redistest.Rights)
	q, err := Open(redistest.Within(t, 20*time.Second), addresses)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	h, _ := redistest.Listen(t, q, "a")
	redistest.Put(t, q, "a", "one", register.Note{Topic: "a", Text: []byte("x")})
	h.Await(t, "x")
	for _, right := range []string{"+evalsha", "+get", "+set", "+zadd", "+zrangebylex", "+publish", "~turnwise*", "&turnwise*"} {
		t.Run("without "+right, func(t *testing.T) {
			acl(strings.Replace(redistest.Rights+" ", right+" ", "", 1))
			q, err := Open(redistest.Within(t, 20*time.Second), addresses)
			if err == nil {
				q.Close()
			}
			if !errors.Is(err, driver.ErrDenied) {
				t.Errorf("open: %v", err)
			}
		})
	}
}

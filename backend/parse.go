package backend

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
)

// target is a URL taken apart. Package net/url accepts no list of hosts.
type target struct {
	scheme  string
	shown   string // the URL without what may be secret: a password, and the parameters, which may have one by mistake
	user    string
	inline  string // the password in the URL
	hosts   []string
	path    string // with its leading slash
	params  *params
	session time.Duration // zero: the driver's default
	longest time.Duration // that anybody may have; likewise
	forgets bool          // the service may forget who holds
}

func parse(text string) (*target, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	t := &target{scheme: strings.ToLower(scheme), shown: scheme + "://…"}
	if !ok {
		t.shown = "…" // there may be a password in it
		if !strings.Contains(text, "@") {
			t.shown = strconv.Quote(shorten(text))
		}
		return nil, t.wrong("it is no URL: write file:///var/lib/locks or etcd://host:2379, say")
	}
	before, query, _ := strings.Cut(rest, "?")
	authority, path := before, ""
	if i := strings.IndexByte(before, '/'); i >= 0 {
		authority, path = before[:i], before[i:]
	}
	if why := misplaced(authority, rest[len(authority):]); why != nil {
		visible, _, _ := strings.Cut(authority, ":")
		t.shown = coord.Printable(t.scheme + "://" + visible + ":…") // what is behind may be a password
		return nil, t.wrong("%w", why)
	}
	who, hosts, hasUser := cutLast(authority, "@")
	if !hasUser {
		who, hosts = "", authority
	}
	user, password, _ := strings.Cut(who, ":")
	shown := t.scheme + "://" + user
	if user != "" && password == "" && !strings.Contains(query, "password-") && !t.hasNames() {
		shown = t.scheme + "://…" // it may be a token, as in nats://token@host
	}
	if hasUser {
		if password != "" {
			shown += ":…"
		}
		shown += "@"
	}
	shown += hosts + path
	if query != "" {
		shown += "?…"
	}
	t.shown = coord.Printable(shown)

	for _, part := range []struct {
		to   *string
		text string
	}{{&t.user, user}, {&t.inline, password}, {&t.path, path}} {
		plain, err := url.PathUnescape(part.text)
		if err != nil {
			return nil, t.wrong("a %% must be followed by two hexadecimal digits: write %%25 for the character itself")
		}
		*part.to = plain
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, t.wrong("what is behind the question mark is not name=value&name=value")
	}
	t.params = &params{values: values, asked: map[string]bool{}}
	if hosts != "" {
		t.hosts = strings.Split(hosts, ",")
	}
	return t, nil
}

// hasNames reports whether a user may stand alone in a URL of the service, known by a certificate or by the way that it comes.
func (t *target) hasNames() bool {
	scheme, _ := strings.CutSuffix(cmp.Or(names[t.scheme], t.scheme), "+tls")
	return scheme == "zk" || scheme == "etcd" || scheme == "postgres" || scheme == "mysql"
}

// misplaced finds a colon behind which a password stands, perhaps, that is cut short by a character of its own.
func misplaced(authority, behind string) error {
	path, query, _ := strings.Cut(behind, "?")
	name, _, _ := strings.Cut(query, "=") // the value of a parameter may have an @
	switch {
	case !strings.Contains(authority, ":"):
		return nil
	case strings.Contains(path+name, "@"):
		return errors.New("an @ stands behind the first / or ?: in a password write %2F and %3F for these, and elsewhere %40 for the @")
	case strings.Contains(authority, "@"):
		return nil
	}
	for h := range strings.SplitSeq(authority, ",") {
		port := h
		switch in, rest, bracket := strings.Cut(h, "]"); {
		case net.ParseIP(h) != nil:
			continue
		case bracket && net.ParseIP(strings.TrimPrefix(in, "[")) != nil:
			port = rest
		}
		if _, port, ok := strings.Cut(port, ":"); ok && strings.Trim(port, "0123456789") != "" {
			return errors.New("a port has only digits; behind a password there is an @, and in it %2F stands for a / and %3F for a ?")
		}
	}
	return nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func shorten(s string) string {
	if len(s) > 64 {
		s = s[:61] + "..."
	}
	return coord.Printable(s)
}

func (t *target) wrong(format string, args ...any) error {
	return fmt.Errorf("turnwise: backend %s: %w: "+format, append([]any{t.shown, coord.ErrInvalid}, args...)...)
}

// id tells services apart.
func (t *target) id() string {
	params := maps.Clone(t.params.values)
	delete(params, "session")
	delete(params, "longest-session")
	path := t.path
	if t.scheme == "file" {
		dir, _, _ := t.directory() // without one, nothing can be opened either
		path = filepath.Clean("/" + dir)
	}
	text, err := json.Marshal([]any{t.scheme, t.user, t.hosts, path, params.Encode()})
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(text)
	return t.scheme + "-" + hex.EncodeToString(sum[:12])
}

// addresses are the hosts, each with a port.
func (t *target) addresses(port int) ([]string, error) {
	if len(t.hosts) == 0 {
		return nil, fmt.Errorf("it names no host: write %s://host:%d", t.scheme, port)
	}
	all := make([]string, len(t.hosts))
	for i, h := range t.hosts {
		host, p, err := net.SplitHostPort(h)
		if err != nil { // there is no port, or it is an IPv6 address
			host, p = strings.Trim(h, "[]"), strconv.Itoa(port)
		}
		number, err := strconv.ParseUint(p, 10, 16)
		if host == "" || strings.ContainsAny(host, " []%") || err != nil || number == 0 {
			return nil, fmt.Errorf("%q is no host, and no host:port", h)
		}
		all[i] = net.JoinHostPort(host, p)
	}
	return all, nil
}

func (t *target) address(port int) (string, error) {
	all, err := t.addresses(port)
	if err == nil && len(all) > 1 {
		err = fmt.Errorf("it names %d hosts, and %s is one", len(all), t.scheme)
	}
	if err != nil {
		return "", err
	}
	return all[0], nil
}

// name is the path without its slashes, for services that have no paths.
func (t *target) name() string { return strings.Trim(t.path, "/") }

// noPath is for services whose URL has none.
func (t *target) noPath() error {
	if t.name() != "" {
		return fmt.Errorf("%s takes no path, and %s is one", t.scheme, t.path)
	}
	return nil
}

// noUser is for services that have no users.
func (t *target) noUser() error {
	if t.user != "" || t.inline != "" {
		return fmt.Errorf("%s knows no users, and the URL names one", t.scheme)
	}
	return nil
}

// withSession reads how long a session lasts.
func (t *target) withSession() error {
	t.session = t.params.duration("session")
	if t.session != 0 {
		return checkSession(t.session)
	}
	return nil
}

// withLongest is withSession for a service that can forget who holds. All of its clients reckon with the longest session that
// anybody may have.
func (t *target) withLongest() error {
	t.forgets, t.longest = true, t.params.duration("longest-session")
	if t.longest != 0 {
		if err := checkSession(t.longest); err != nil {
			return err
		}
	}
	return t.withSession()
}

// checkLongest refuses a session that is longer than others reckon with.
func (t *target) checkLongest(session time.Duration) error {
	longest := cmp.Or(t.longest, register.DefaultTTL)
	session = cmp.Or(session, register.DefaultTTL)
	if !t.forgets || session <= longest {
		return nil
	}
	return fmt.Errorf("a session of %v: others reckon with %v at most when the service has forgotten who holds: add session=%v; "+
		"if it must be longer, all who use it need longest-session=%v in their URLs", session, longest, longest, session)
}

// params are what follows the question mark. Asking for one makes it known; rest complains about those that nobody has
// asked for.
type params struct {
	values url.Values
	asked  map[string]bool
	err    error
}

func (p *params) text(name string) string {
	p.asked[name] = true
	all := p.values[name]
	if len(all) > 1 {
		p.fail("%s stands there twice", name)
	}
	if len(all) > 0 && all[0] == "" {
		p.fail("%s is empty", name)
	}
	return p.values.Get(name)
}

func (p *params) yes(name string) bool {
	switch v := p.text(name); v {
	case "yes", "true", "1":
		return true
	case "", "no", "false", "0":
		return false
	default:
		p.fail("%s=%s: write yes or no", name, shorten(v))
		return false
	}
}

func (p *params) duration(name string) time.Duration {
	v := p.text(name)
	if v == "" {
		return 0
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		p.fail("%s=%s: write a duration such as 10s", name, shorten(v))
		return 0
	}
	if d <= 0 {
		p.fail("%s=%s: it must be positive", name, shorten(v))
	}
	return d
}

func (p *params) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// rest returns what is wrong with the parameters.
func (p *params) rest() error {
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		if !p.asked[name] {
			return fmt.Errorf("there is no parameter %s: it takes %s", shorten(name), strings.Join(slices.Sorted(maps.Keys(p.asked)), ", "))
		}
	}
	return p.err
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	neturl "net/url"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/spf13/pflag"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/people"
	"github.com/turnwise/turnwise/coord"
)

// service says which service to use.
type service struct {
	url, profile string
	require      string
	verbose      bool

	fallback bool // nobody has said which
}

func (s *service) flags(f *pflag.FlagSet) {
	f.StringVarP(&s.url, "backend", "b", "", "the `URL` of the service; else TURNWISE_BACKEND, TURNWISE_PROFILE, the configuration, or a directory of yours")
	f.StringVar(&s.profile, "profile", "", "use the service of this `NAME` in the configuration")
	f.StringVar(&s.require, "require", "", "refuse any service but `one` that other machines can reach (remote), or that of this profile; else TURNWISE_REQUIRE")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "say what is ridden out")
}

// configuration is the file config.toml.
type configuration struct {
	Backend string
	Profile map[string]struct{ Backend string }
}

// configFile is where the configuration is. Cron and others set no HOME; then the system knows it.
func configFile() (string, error) {
	if os.Getenv("HOME") == "" {
		if u, err := user.Current(); err == nil && u.HomeDir != "" {
			os.Setenv("HOME", u.HomeDir)
			defer os.Unsetenv("HOME")
		}
	}
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "turnwise", "config.toml"), err
}

func configured() (c configuration, path string, err error) {
	path, err = configFile()
	if err != nil {
		return c, "", nil // without a home there is no configuration
	}
	f, err := openConfiguration(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, path, nil
	}
	var meta toml.MetaData
	if err == nil {
		defer f.Close()
		meta, err = toml.NewDecoder(f).Decode(&c)
	}
	if err == nil && len(meta.Undecoded()) > 0 {
		err = fmt.Errorf("there is no setting %s: it takes backend, and profile.NAME.backend", meta.Undecoded()[0])
	}
	if err != nil {
		return c, path, fail(codeConfig, "%s: %w", path, err)
	}
	return c, path, nil
}

// address returns the URL of the service.
func (s *service) address() (string, error) {
	switch {
	case s.url != "" && s.profile != "":
		return "", usage("--backend and --profile exclude each other")
	case s.url != "":
		return s.url, nil
	case s.profile != "":
		return ofProfile(s.profile)
	case os.Getenv("TURNWISE_BACKEND") != "":
		return os.Getenv("TURNWISE_BACKEND"), nil
	case os.Getenv("TURNWISE_PROFILE") != "":
		return ofProfile(os.Getenv("TURNWISE_PROFILE"))
	}
	c, _, err := configured()
	if err != nil || c.Backend != "" {
		return c.Backend, err
	}
	s.fallback = true
	return "file://", nil
}

// required refuses a service that is not what --require asks for.
func (s *service) required(to *backend.Service) error {
	switch what := cmp.Or(s.require, os.Getenv("TURNWISE_REQUIRE")); what {
	case "":
		return nil
	case "remote":
		if to.Scheme() == "file" {
			return fail(codeConfig, "--require remote: %s is for this machine alone%s", to, s.unchosen())
		}
		return nil
	default:
		url, err := ofProfile(what)
		if err != nil {
			return err
		}
		if wanted, err := backend.Parse(url); err != nil {
			return &failure{codeConfig, err}
		} else if wanted.ID() != to.ID() {
			return fail(codeConfig, "--require %s: the service of that profile is %s, not %s%s", what, wanted, to, s.unchosen())
		}
		return nil
	}
}

func (s *service) unchosen() string {
	if !s.fallback {
		return ""
	}
	return ", and nobody has said which to use: there is no --backend, --profile, TURNWISE_BACKEND, TURNWISE_PROFILE or backend in the configuration"
}

func ofProfile(name string) (string, error) {
	c, path, err := configured()
	if err != nil {
		return "", err
	}
	p, ok := c.Profile[name]
	if !ok || p.Backend == "" {
		return "", fail(codeConfig, "%s: there is no profile.%s.backend", path, coord.Printable(name))
	}
	return p.Backend, nil
}

// forCommand returns the variables that lead a turnwise within a command to the same service. A URL with a password that
// stands in the configuration is not copied from there: the configuration is named instead.
func (s *service) forCommand(to *backend.Service, url string) []string {
	if dir := to.Directory(); url == "file://" && dir != "" { // for another user, that would be another one
		url += (&neturl.URL{Path: dir}).EscapedPath()
	}
	inConfiguration := s.url == "" && (s.profile != "" || os.Getenv("TURNWISE_BACKEND") == "")
	if !inConfiguration || !to.HasPassword() {
		return []string{"TURNWISE_BACKEND=" + url, "TURNWISE_PROFILE="}
	}
	return []string{"TURNWISE_BACKEND=", "TURNWISE_PROFILE=" + cmp.Or(s.profile, os.Getenv("TURNWISE_PROFILE"))}
}

// find parses the service's URL.
func (s *service) find() (*backend.Service, string, error) {
	url, err := s.address()
	if err != nil {
		return nil, "", err
	}
	found, err := backend.Parse(url)
	if err != nil {
		return nil, "", &failure{codeConfig, err}
	}
	return found, url, s.required(found)
}

// open connects.
func (s *service) open(ctx context.Context, to *backend.Service, opts ...backend.Option) (*coord.Client, error) {
	if s.verbose {
		opts = append(opts, backend.WithLogger(slog.New(slog.NewTextHandler(people.Err, nil))))
	}
	if err := enoughFiles(); err != nil {
		return nil, &failure{codeUnusable, err}
	}
	back, err := leaveHome(to.Scheme())
	if err != nil {
		return nil, err
	}
	defer back()
	client, err := to.Connect(ctx, opts...)
	if err != nil {
		return nil, unopened(to.Scheme(), err)
	}
	return client, nil
}

// look connects for a command that only looks, and calls f.
func (s *service) look(ctx context.Context, f func(ctx context.Context, c *coord.Client) error, opts ...backend.Option) error {
	client, _, err := s.reach(ctx, opts...)
	if err != nil {
		return unlessInterrupted(ctx, err)
	}
	defer client.Close()
	return unlessInterrupted(ctx, f(ctx, client))
}

// reachFor is how long a command that only looks tries to reach the service.
const reachFor = 10 * time.Second

// reach connects for a command that only looks, and says where that is.
func (s *service) reach(ctx context.Context, opts ...backend.Option) (c *coord.Client, at string, err error) {
	to, _, err := s.find()
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, reachFor)
	defer cancel()
	c, err = s.open(ctx, to, opts...)
	return c, to.String(), err
}

// stay connects for a command that goes on looking, and calls f with the place where it looks. It does not wait for the
// session to end at the service: there is nothing to give back.
func (s *service) stay(ctx context.Context, f func(ctx context.Context, c *coord.Client, at string) error) error {
	client, at, err := s.reach(ctx)
	if err != nil {
		return err
	}
	err = f(ctx, client, at)
	closeWithin(client, 200*time.Millisecond)
	return err
}

// closeWithin ends a client's session, and waits for that no longer than d.
func closeWithin(c *coord.Client, d time.Duration) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.Close()
	}()
	select {
	case <-closed:
	case <-time.After(d):
	}
}

package driverkit

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestWhatStaysOnThisMachine(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:2181": true, "127.8.9.1:1": true, "[::1]:2379": true, "localhost:2379": localhostIsHere(), "localhost": localhostIsHere(), "127.0.0.1": true, "::1": true,
		"": false, ":2379": false, "10.0.0.1:2379": false, "zk1:2181": false, "localhost.example:1": false, "[::]:1": false, "0.0.0.0:1": false,
		"::1:2181": false,
	} {
		if OnThisMachine(addr) != want {
			t.Errorf("%q: %v", addr, !want)
		}
	}
}

func TestWhereAPasswordMayGo(t *testing.T) {
	own := func([][]byte, [][]*x509.Certificate) error { return nil }
	for _, c := range []struct {
		addr string
		cfg  *tls.Config
		fine bool
	}{
		{"127.0.0.1:1", nil, true}, {"/run/socket", nil, true}, {"db:1", &tls.Config{}, true},
		{"db:1", nil, false}, {"", nil, false}, {"db:1", &tls.Config{InsecureSkipVerify: true}, false},
		{"127.0.0.1:1", &tls.Config{InsecureSkipVerify: true}, true}, {"@socket", nil, false}, {"@socket", &tls.Config{}, true}, {"db:1", &tls.Config{InsecureSkipVerify: true, VerifyPeerCertificate: own}, true},
	} {
		var said bytes.Buffer
		log := slog.New(slog.NewTextHandler(&said, nil))
		err := CheckPassword(c.addr, c.cfg, false, log)
		if (err == nil) != c.fine || err != nil && (!strings.Contains(err.Error(), "cleartext=yes") || !strings.Contains(err.Error(), c.addr)) || said.Len() > 0 {
			t.Errorf("%+v: %v, and the log says %q", c, err, said.String())
		}
		err = CheckPassword(c.addr, c.cfg, true, log)
		if err != nil || (said.Len() == 0) != c.fine || !strings.Contains(said.String(), c.addr) && !c.fine {
			t.Errorf("%+v, allowed: %v, and the log says %q", c, err, said.String())
		}
	}
}

// Who listens at a socket is whoever made it, so it matters who could have.
func TestWhereAnybodyMayListen(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("rights are not those of modes")
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil {
		err = os.Chmod(root, 0o755) // whatever the umask is
	}
	if err != nil {
		t.Fatal(err)
	}
	for at := filepath.Dir(root); at != filepath.Dir(at); at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && info.Mode().Perm()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
			t.Skipf("everybody may replace what is in %s", at)
		}
	}
	dir := func(name string, mode os.FileMode) string {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(to, name string) string {
		path := filepath.Join(root, name)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	own := func(path string, uid int) string { // as far as we may
		if os.Geteuid() == 0 {
			if err := os.Lchown(path, uid, -1); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	asRoot := os.Geteuid() == 0
	if err := os.WriteFile(filepath.Join(dir("tmp", os.ModeSticky|0o777), "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir("tmp/dir", 0o755)
	dir("nosticky", 0o777)
	dir("nosticky/dir", 0o755)
	own(dir("tmp/theirs", 0o755), 12346)
	own(link("dir", "tmp/their link"), 12346)
	link("tmp", "link")
	link("../closed", "tmp/out")
	link("loop", "loop")
	own(dir("closed", 0o775), 12345)
	link("../tmp/gone", "closed/odd")
	for path, want := range map[string]bool{
		"closed/s": false, "closed/sub/s": false, "tmp/dir/s": false, "tmp/out/s": false, "tmp/dir/../../closed/s": false,
		"tmp/s": true, "tmp/mine": true, "link/s": true, "link/dir/s": false, "nosticky/s": true, "nosticky/dir/s": true, "closed/odd": true,
		"loop/s": true, "tmp/gone/s": true, "tmp/theirs/s": asRoot, "tmp/their link/s": asRoot,
	} {
		if got := anybodyMayListen(root + "/" + path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if !anybodyMayListen("@turnwise") {
		t.Error("who is first at a name in no directory is not known")
	}
}

func TestAddressesThatNobodyCouldDial(t *testing.T) {
	for _, good := range []string{"h:1", "h:65535", ":6379", "127.0.0.1:2379", "[::1]:2379", "[fe80::1%eth0]:2379", "h:http", "h_1.example:80"} {
		if err := CheckAddress(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "h", "h:", "h:0", "h:65536", "h:-1", "h:no-such-service", "h:1:2", "[h:1]:2", "::1:2", "a b:1", "h/x:1", "u@h:1", "h\n:1", "[h", "h:1/x"} {
		if err := CheckAddress(bad); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}

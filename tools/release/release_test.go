package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
)

const version = "0.0.1-test"

// into is a variable with a folder: where it is set, this program builds a release into it and does nothing else.
const into = "TURNWISE_RELEASE_INTO"

// systems are fewer for whoever works on one of them: to build all takes minutes.
var systems = flag.String("systems", all, "build only for these")

var (
	released string            // the folder of a release, built once
	found    map[string][]byte // what is in it
)

func TestMain(m *testing.M) {
	flag.Parse()
	if dir := os.Getenv(into); dir != "" {
		if err := build("v"+version, strings.Split(*systems, ","), dir); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "released")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		released = dir
		if err := build("v"+version, strings.Split(*systems, ","), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if found, err = filesIn(dir); err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

func filesIn(dir string) (map[string][]byte, error) {
	all := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		all[e.Name()] = data
	}
	return all, err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	said, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, said)
	}
	return string(said)
}

func TestNothingIsMissing(t *testing.T) {
	var want []string
	for _, name := range strings.Split(*systems, ",") {
		system, arch, _ := strings.Cut(name, "/")
		kinds := map[string][]string{
			"linux": {".cdx.json", ".deb", ".rpm", ".tar.gz", "_image.tar"}, "darwin": {".cdx.json", ".tar.gz"}, "windows": {".cdx.json", ".zip"},
		}
		for _, kind := range kinds[system] {
			want = append(want, "turnwise_"+version+"_"+system+"_"+arch+kind)
		}
	}
	want = append(want, "SHA256SUMS")
	var got []string
	for name := range found {
		got = append(got, name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("there is\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	sums := strings.Split(strings.TrimSpace(string(found["SHA256SUMS"])), "\n")
	if len(sums) != len(found)-1 {
		t.Errorf("%d checksums for %d files", len(sums), len(found)-1)
	}
	for _, line := range sums {
		sum, name, _ := strings.Cut(line, "  ")
		if data, is := found[name]; !is || sum != fmt.Sprintf("%x", sha256.Sum256(data)) {
			t.Errorf("wrong: %s", line)
		}
	}
}

// Whoever builds the same sources gets the same bytes: in another folder, with another shell, and, for one system, without
// anything that was compiled before.
func TestTheSameBytesAnywhere(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "quite", "another folder")
	copyOfSources(t, elsewhere)
	when, err := moment(filepath.Join("..", ".."))
	must(t, err)
	again := func(targets string, env ...string) {
		out := t.TempDir()
		c := exec.Command("sh", "-c", `umask 077 && exec "$0" -systems "$1"`, os.Args[0], targets)
		c.Dir = filepath.Join(elsewhere, "tools", "release")
		c.Env = append(os.Environ(), into+"="+out, fmt.Sprintf("SOURCE_DATE_EPOCH=%d", when.Unix()),
			"TZ=Asia/Tokyo", "LC_ALL=C", "GOFLAGS=-tags=turnwise_no_zk", "GOAMD64=v3", "CGO_ENABLED=1")
		c.Env = append(c.Env, env...)
		run(t, c)
		built, err := filesIn(out)
		must(t, err)
		delete(built, "SHA256SUMS")
		if len(built) < 5 {
			t.Fatalf("only %d files", len(built))
		}
		for name, data := range built {
			if !bytes.Equal(data, found[name]) {
				t.Errorf("%s: other bytes", name)
			}
		}
	}
	again(*systems)
	if !testing.Short() {
		again(runtime.GOOS+"/"+runtime.GOARCH, "GOCACHE="+t.TempDir())
	}
}

// copyOfSources copies what git knows, or would, and nothing else: there is no repository in the copy.
func copyOfSources(t *testing.T, to string) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	must(t, err)
	names := run(t, exec.Command("git", "-C", root, "ls-files", "-co", "--exclude-standard", "--deduplicate", "-z"))
	for _, name := range strings.Split(strings.TrimSuffix(names, "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // it is to go with the next commit
		}
		must(t, err)
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(to, name), data, 0o644))
	}
}

// wanted are the texts that everybody gets.
var wanted = []string{"LICENSE", "NOTICE", "man/turnwise.1", "man/turnwise-lock.1", "completions/turnwise.bash", "completions/turnwise.fish", "completions/turnwise.zsh"}

func TestArchives(t *testing.T) {
	for _, name := range strings.Split(*systems, ",") {
		t.Run(name, func(t *testing.T) {
			system, arch, _ := strings.Cut(name, "/")
			base := "turnwise_" + version + "_" + system + "_" + arch
			var files map[string]file
			program := "turnwise"
			if system == "windows" {
				files, program = unzipped(t, found[base+".zip"]), "turnwise.exe"
			} else {
				files = untarred(t, gunzipped(t, found[base+".tar.gz"]))
			}
			folder := "turnwise-" + version + "/"
			for _, text := range wanted {
				if len(files[folder+text].data) == 0 {
					t.Errorf("no %s", text)
				}
			}
			if mode := files[folder+program].mode.Perm(); mode != 0o755 {
				t.Errorf("the program's mode is %v", mode)
			}
			info, err := buildinfo.Read(bytes.NewReader(files[folder+program].data))
			must(t, err)
			settings := map[string]string{}
			for _, s := range info.Settings {
				settings[s.Key] = s.Value
			}
			if settings["GOOS"] != system || settings["GOARCH"] != arch || settings["CGO_ENABLED"] != "0" || settings["vcs"] != "" {
				t.Errorf("built with %v", settings)
			}
			listed(t, found[base+".cdx.json"], files[folder+program].data, len(info.Deps), system != "windows")
			if system == runtime.GOOS && arch == runtime.GOARCH {
				path := filepath.Join(t.TempDir(), "turnwise")
				must(t, os.WriteFile(path, files[folder+program].data, 0o755))
				says(t, exec.Command(path, "--version"))
			}
		})
	}
}

// says checks that a command is the program of this version.
func says(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if said := strings.TrimSpace(run(t, c)); said != "turnwise version v"+version {
		t.Errorf("it says %q", said)
	}
}

// listed checks the list of what a program contains. The one for Windows only says that it does not run there.
func listed(t *testing.T, list, program []byte, modules int, whole bool) {
	t.Helper()
	var b struct {
		BOMFormat, SpecVersion string
		Metadata               struct{ Component component }
		Components             []component
	}
	must(t, json.Unmarshal(list, &b))
	if b.BOMFormat != "CycloneDX" || b.SpecVersion != "1.5" || len(b.Components) != modules+1 || whole && modules < 20 {
		t.Errorf("%s %s with %d components, and there are %d modules", b.BOMFormat, b.SpecVersion, len(b.Components), modules)
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(program)); b.Metadata.Component.Hashes[0].Content != sum {
		t.Errorf("it is the list of another program")
	}
	versions := map[string]string{}
	for _, c := range b.Components {
		versions[c.Name] = c.Version
	}
	if versions["stdlib"] != strings.TrimPrefix(runtime.Version(), "go") {
		t.Errorf("the standard library is listed as %q", versions["stdlib"])
	}
	if !whole {
		return
	}
	if ours := versions["github.com/turnwise/turnwise/coord/etcd"]; ours != "v"+version {
		t.Errorf("our own module is listed as %q", ours)
	}
	if grpc := versions["google.golang.org/grpc"]; !strings.HasPrefix(grpc, "v1.") {
		t.Errorf("gRPC is listed as %q", grpc)
	}
}

// inPackages are where the wanted texts are on a system with packages.
var inPackages = []string{
	"usr/bin/turnwise", "usr/share/doc/turnwise/copyright", "usr/share/doc/turnwise/NOTICE", "usr/share/man/man1/turnwise.1.gz", "usr/share/man/man1/turnwise-lock.1.gz",
	"usr/share/bash-completion/completions/turnwise", "usr/share/fish/vendor_completions.d/turnwise.fish",
}

// The deb is installed and removed in a folder of its own: nothing of this machine changes.
func TestDeb(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("there is no dpkg here")
	}
	root := t.TempDir()
	for _, dir := range []string{"info", "updates", "triggers"} {
		must(t, os.MkdirAll(filepath.Join(root, "var/lib/dpkg", dir), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644))
	dpkg := func(args ...string) string {
		return run(t, exec.Command("dpkg", append([]string{"--root=" + root, "--log=" + filepath.Join(root, "log"), "--force-not-root"}, args...)...))
	}
	arch := strings.TrimSpace(run(t, exec.Command("dpkg", "--print-architecture")))
	if arch != "amd64" && arch != "arm64" {
		t.Skipf("there is no package for %s", arch)
	}
	dpkg("--install", filepath.Join(released, "turnwise_"+version+"_linux_"+arch+".deb"))
	for _, path := range append([]string{"usr/share/zsh/vendor-completions/_turnwise"}, inPackages...) {
		info, err := os.Stat(filepath.Join(root, path))
		must(t, err)
		if want := os.FileMode(0o644); path != "usr/bin/turnwise" && info.Mode() != want {
			t.Errorf("%s: %v", path, info.Mode())
		}
	}
	says(t, exec.Command(filepath.Join(root, "usr/bin/turnwise"), "--version"))
	run(t, exec.Command("bash", "-n", filepath.Join(root, "usr/share/bash-completion/completions/turnwise")))
	run(t, exec.Command("gzip", "-t", filepath.Join(root, "usr/share/man/man1/turnwise.1.gz")))
	if wrong := dpkg("--verify", "turnwise"); wrong != "" {
		t.Errorf("dpkg says of what it has installed: %s", wrong)
	}
	if state := dpkg("--status", "turnwise"); !strings.Contains(state, "Status: install ok installed") || !strings.Contains(state, "Version: 0.0.1~test-1") {
		t.Error(state)
	}
	dpkg("--purge", "turnwise")
	if left, _ := filepath.Glob(filepath.Join(root, "usr", "*")); len(left) > 0 {
		t.Errorf("it leaves %v behind", left)
	}
}

func TestRPM(t *testing.T) {
	for arch, name := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		if !strings.Contains(*systems, "linux/"+arch) {
			continue
		}
		tags, files := unpackedRPM(t, found["turnwise_"+version+"_linux_"+arch+".rpm"])
		const nameTag, versionTag, releaseTag, archTag = 1000, 1001, 1002, 1022
		if id := []string{tags[nameTag], tags[versionTag], tags[releaseTag], tags[archTag]}; !slices.Equal(id, []string{"turnwise", "0.0.1~test", "1", name}) {
			t.Errorf("it is %v", id)
		}
		for _, path := range append([]string{"usr/share/zsh/site-functions/_turnwise"}, inPackages...) {
			if len(files[path].data) == 0 {
				t.Errorf("%s: no %s", arch, path)
			}
		}
		program := files["usr/bin/turnwise"]
		archived := untarred(t, gunzipped(t, found["turnwise_"+version+"_linux_"+arch+".tar.gz"]))
		if !bytes.Equal(program.data, archived["turnwise-"+version+"/turnwise"].data) || program.mode.Perm() != 0o755 {
			t.Errorf("%s: the program is another than that of the archive, or has the mode %v", arch, program.mode)
		}
	}
}

// The real rpm installs the package into a folder, finds there what it has installed, and removes it.
func TestRPMIsInstalledAndRemoved(t *testing.T) {
	cache := os.Getenv("TURNWISE_SERVERS") // where scripts/deps.sh puts it
	if cache == "" {
		cache = filepath.Join(cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(os.Getenv("HOME"), ".cache")), "turnwise")
	}
	program := filepath.Join(cache, "rpm", "rpm")
	if _, err := os.Stat(program); err != nil && os.Getenv("TURNWISE_REQUIRE_SERVERS") == "" {
		t.Skip("there is no rpm; make deps fetches it:", err)
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("rpm installs only what is for the machine")
	}
	root := t.TempDir()
	argv := []string{program, "--root", root, "--define", "_dbpath /var/lib/rpm"}
	if os.Geteuid() != 0 { // --root takes a right that a user has in a namespace of his own
		argv = append([]string{"unshare", "--map-root-user"}, argv...)
		if err := exec.Command("unshare", "--map-root-user", "true").Run(); err != nil {
			t.Skip("this user may make no namespace:", err)
		}
	}
	rpm := func(args ...string) string {
		c := exec.Command(argv[0], append(argv[1:len(argv):len(argv)], args...)...)
		c.Env = append(os.Environ(), "RPM_CONFIGDIR="+filepath.Join(cache, "rpm", "config"), "HOME="+t.TempDir())
		return run(t, c)
	}
	rpm("--install", filepath.Join(released, "turnwise_"+version+"_linux_amd64.rpm"))
	for _, path := range append([]string{"usr/share/zsh/site-functions/_turnwise"}, inPackages...) {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Error(err)
		}
	}
	says(t, exec.Command(filepath.Join(root, "usr/bin/turnwise"), "--version"))
	if is := rpm("--query", "turnwise"); !strings.Contains(is, "turnwise-0.0.1~test-1.x86_64") {
		t.Error(is)
	}
	rpm("--verify", "turnwise") // or it fails
	rpm("--erase", "turnwise")
	for _, path := range inPackages {
		if _, err := os.Stat(filepath.Join(root, path)); err == nil {
			t.Errorf("it leaves %s behind", path)
		}
	}
}

// unpackedRPM reads a package: a lead of 96 bytes, the header with signatures, padded to 8 bytes, the header, and a cpio
// archive. It returns the header's texts by their tags, and the files.
func unpackedRPM(t *testing.T, data []byte) (map[uint32]string, map[string]file) {
	t.Helper()
	number := func(at int) int { return int(binary.BigEndian.Uint32(data[at:])) }
	const lead, intro, entry, text, texts = 96, 16, 16, 6, 9
	end := func(at int) int { return at + intro + entry*number(at+8) + number(at+12) }
	header := (end(lead) + 7) / 8 * 8
	if !bytes.Equal(data[:4], []byte{0xed, 0xab, 0xee, 0xdb}) || !bytes.Equal(data[header:header+3], []byte{0x8e, 0xad, 0xe8}) {
		t.Fatal("it is no rpm")
	}
	tags := map[uint32]string{}
	for i := range number(header + 8) {
		at := header + intro + entry*i
		if kind := number(at + 4); kind == text || kind == texts {
			said, _, _ := bytes.Cut(data[end(header)-number(header+12)+number(at+8):], []byte{0})
			tags[uint32(number(at))] = string(said)
		}
	}
	files := map[string]file{}
	r := cpio.NewReader(bytes.NewReader(gunzipped(t, data[end(header):])))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return tags, files
		}
		must(t, err)
		content, err := io.ReadAll(r)
		must(t, err)
		files[strings.TrimLeft(h.Name, "./")] = file{h.Name, h.FileInfo().Mode(), content}
	}
}

// The image is unpacked, every digest is checked, and its program locks something with the image as its root and as its user.
func TestImage(t *testing.T) {
	name := "turnwise_" + version + "_linux_" + runtime.GOARCH + "_image.tar"
	whole := untarred(t, found[name])
	for path, f := range whole {
		if sum, is := strings.CutPrefix(path, "blobs/sha256/"); is && sum != "" && sum != fmt.Sprintf("%x", sha256.Sum256(f.data)) {
			t.Errorf("%s has another digest", path)
		}
	}
	type descriptor struct{ Digest string }
	at := func(d descriptor) []byte { return whole["blobs/"+strings.ReplaceAll(d.Digest, ":", "/")].data }
	var index struct{ Manifests []descriptor }
	must(t, json.Unmarshal(whole["index.json"].data, &index))
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	must(t, json.Unmarshal(at(index.Manifests[0]), &manifest))
	var config struct {
		Architecture string
		Config       struct {
			User       string
			Entrypoint []string
			Env        []string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	must(t, json.Unmarshal(at(manifest.Config), &config))
	layer := gunzipped(t, at(manifest.Layers[0]))
	if digest(layer) != config.RootFS.DiffIDs[0] || config.Architecture != runtime.GOARCH {
		t.Errorf("config is %+v", config)
	}
	var docker []struct {
		Config string
		Layers []string
	}
	must(t, json.Unmarshal(whole["manifest.json"].data, &docker))
	if !bytes.Equal(whole[docker[0].Config].data, at(manifest.Config)) || !bytes.Equal(whole[docker[0].Layers[0]].data, at(manifest.Layers[0])) {
		t.Error("docker load would get another image")
	}

	if os.Getuid() != 0 {
		t.Skip("only root can take a folder as the root of a program")
	}
	root, err := os.MkdirTemp("", "image") // below a folder that others can enter
	must(t, err)
	defer os.RemoveAll(root)
	must(t, os.Chmod(root, 0o755))
	run(t, exec.Command("tar", "-x", "-p", "--same-owner", "-f", written(t, layer), "-C", root))
	must(t, os.Mkdir(filepath.Join(root, "proc"), 0o755)) // every engine gives it to a container
	inside := func(args ...string) *exec.Cmd {
		c := exec.Command("unshare", append([]string{"--mount", "sh", "-c", `mount --rbind /proc "$0/proc" && exec chroot --userspec="$@"`,
			root, config.Config.User, root, config.Config.Entrypoint[0]}, args...)...)
		c.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, config.Config.Env[1:]...)
		return c
	}
	says(t, inside("--version"))
	says(t, inside("lock", "-q", "a", "--", "/turnwise", "--version"))
	if out, err := exec.Command("docker", "version").CombinedOutput(); err != nil {
		t.Logf("no container engine answers, so none has run the image: %.80s", out)
		return
	}
	run(t, exec.Command("docker", "load", "-i", filepath.Join(released, name)))
	says(t, exec.Command("docker", "run", "--rm", "turnwise:"+version, "lock", "-q", "a", "--", "/turnwise", "--version"))
}

func written(t *testing.T, data []byte) string {
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, data, 0o644))
	return path
}

func gunzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	plain, err := io.ReadAll(r)
	must(t, err)
	return plain
}

func untarred(t *testing.T, data []byte) map[string]file {
	t.Helper()
	files := map[string]file{}
	r := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		must(t, err)
		content, err := io.ReadAll(r)
		must(t, err)
		files[h.Name] = file{h.Name, h.FileInfo().Mode(), content}
	}
}

func unzipped(t *testing.T, data []byte) map[string]file {
	t.Helper()
	files := map[string]file{}
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	must(t, err)
	for _, f := range r.File {
		from, err := f.Open()
		must(t, err)
		content, err := io.ReadAll(from)
		must(t, err)
		files[f.Name] = file{f.Name, f.Mode(), content}
	}
	return files
}

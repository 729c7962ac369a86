// Release builds what people install of the tool turnwise into a folder:
//
//	release -version v0.3.0 [-targets linux/amd64,windows/arm64] FOLDER
//
// For each system there is an archive with the program, its manual pages, its completions and the licences, and a list of
// what the program contains (CycloneDX). For Linux there are packages (deb, rpm) and an image for containers as well.
// SHA256SUMS has the checksums.
//
// The same sources and the same Go give the same bytes, wherever and whenever they are built: all times are that of the
// commit, or SOURCE_DATE_EPOCH.
package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

const all = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	version := flag.String("version", "", "what the program says its version is, such as v0.3.0")
	targets := flag.String("targets", all, "for which systems")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: release -version v0.3.0 [-targets linux/amd64,...] FOLDER")
	}
	if err := build(*version, strings.Split(*targets, ","), flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

// A release is one version of the tool on its way into a folder.
type release struct {
	version string // without the v
	when    time.Time
	root    string // of the repository
	out     string
	texts   []file // manual pages, completions, licences: the same for all systems
}

// A target is a system that the program runs on.
type target struct{ os, arch string }

// A file is in an archive, a package or an image.
type file struct {
	name string
	mode fs.FileMode
	data []byte
}

func build(version string, targets []string, out string) error {
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(version) {
		return fmt.Errorf("%q is no version such as v0.3.0", version)
	}
	r := &release{version: version[1:], out: out}
	var err error
	if r.root, err = filepath.Abs(filepath.Join("..", "..")); err != nil {
		return err
	}
	if r.when, err = moment(r.root); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// The program says its own manual pages and completions, so one has to run here.
	here := filepath.Join(work, "here")
	if err := r.compile(target{runtime.GOOS, runtime.GOARCH}, here); err != nil {
		return err
	}
	if r.texts, err = r.textsOf(here, work); err != nil {
		return err
	}
	for _, name := range targets {
		system, arch, _ := strings.Cut(name, "/")
		if err := r.target(target{system, arch}, filepath.Join(work, "turnwise")); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return sums(out)
}

// target makes all files for a system.
func (r *release) target(t target, program string) error {
	if err := r.compile(t, program); err != nil {
		return err
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := r.bill(t, program, data); err != nil {
		return err
	}
	if err := r.archive(t, data); err != nil {
		return err
	}
	if t.os != "linux" {
		return nil
	}
	if err := r.packages(t, data); err != nil {
		return err
	}
	return r.image(t, data)
}

// compile builds the program. What a shell sets that would change its bytes does not count.
func (r *release) compile(t target, to string) error {
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", to,
		"-ldflags=-s -w -X github.com/turnwise/turnwise/cmd/turnwise/internal/cli.released=v"+r.version, ".")
	c.Dir = filepath.Join(r.root, "cmd", "turnwise")
	c.Env = append(os.Environ(), "GOOS="+t.os, "GOARCH="+t.arch, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off", "GOFLAGS=-mod=readonly")
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, said)
	}
	return nil
}

// textsOf returns what is beside the program in an archive. Names are those of the archive.
func (r *release) textsOf(program, work string) (texts []file, err error) {
	for _, name := range []string{"LICENSE", "NOTICE", "CHANGELOG.md"} {
		data, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return nil, err
		}
		texts = append(texts, file{name, 0o644, data})
	}
	pages := filepath.Join(work, "man")
	if err := os.Mkdir(pages, 0o755); err != nil {
		return nil, err
	}
	if said, err := exec.Command(program, "man", pages).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("turnwise man: %w: %s", err, said)
	}
	found, err := os.ReadDir(pages) // sorted
	if err != nil {
		return nil, err
	}
	for _, page := range found {
		data, err := os.ReadFile(filepath.Join(pages, page.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, file{"man/" + page.Name(), 0o644, data})
	}
	for _, shell := range []string{"bash", "fish", "zsh"} {
		said, err := exec.Command(program, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("turnwise completion %s: %w", shell, err)
		}
		texts = append(texts, file{"completions/turnwise." + shell, 0o644, said})
	}
	return texts, nil
}

// name is that of a file of the release.
func (r *release) name(t target, kind string) string {
	return filepath.Join(r.out, fmt.Sprintf("turnwise_%s_%s_%s%s", r.version, t.os, t.arch, kind))
}

// moment is the time that all files have.
func moment(root string) (time.Time, error) {
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		said, err := exec.Command("git", "-C", root, "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("git does not tell the time of the commit, and there is no SOURCE_DATE_EPOCH: %w", err)
		}
		seconds = strings.TrimSpace(string(said))
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	return time.Unix(n, 0).UTC(), err
}

// sums writes the checksums as sha256sum does.
func sums(folder string) error {
	found, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(e fs.DirEntry) bool { return e.Name() == "SHA256SUMS" })
	var b bytes.Buffer
	for _, e := range found {
		data, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(folder, "SHA256SUMS"), b.Bytes(), 0o644)
}

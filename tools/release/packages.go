package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// packages writes the program as a deb and as an rpm. No script runs when they are installed or removed.
func (r *release) packages(t target, program []byte) error {
	for _, kind := range []string{"deb", "rpm"} {
		work, err := os.MkdirTemp("", "package")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		info := &nfpm.Info{
			Name: "turnwise", Arch: t.arch, Platform: "linux", Version: r.version, VersionSchema: "semver", Release: "1",
			Section: "utils", Priority: "optional", MTime: r.when, DisableGlobbing: true,
			Maintainer: "The turnwise authors", Vendor: "turnwise", License: "Apache-2.0", Homepage: "https://github.com/turnwise/turnwise",
			Description: "Run commands under a lock, and see who has it\n" +
				"Locks, semaphores and elections for commands, among the processes of a\nmachine or of many, on ZooKeeper, etcd, Redis, PostgreSQL, MariaDB,\nmemcached, NATS, Kubernetes or in a directory.",
		}
		info = nfpm.WithDefaults(info) // which knows that 0.3.0-rc.1 comes before 0.3.0, and how each kind says so
		info.RPM.BuildHost = "localhost"
		add := func(to string, mode os.FileMode, data []byte) error {
			from := filepath.Join(work, strings.ReplaceAll(to, "/", "_"))
			if err := os.WriteFile(from, data, 0o600); err != nil {
				return err
			}
			info.Contents = append(info.Contents, &files.Content{Source: from, Destination: to,
				FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.when}})
			return nil
		}
		if err := add("/usr/bin/turnwise", 0o755, program); err != nil {
			return err
		}
		info.Contents = append(info.Contents, &files.Content{Destination: "/usr/share/doc/turnwise", Type: files.TypeDir,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o755, MTime: r.when}})
		for _, f := range r.texts {
			to, data := place(f, kind)
			if err := add(to, f.mode, data); err != nil {
				return err
			}
		}
		if err := write(info, kind, r.name(t, "."+kind)); err != nil {
			return err
		}
	}
	return nil
}

func write(info *nfpm.Info, kind, path string) error {
	packager, err := nfpm.Get(kind)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, kind); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := packager.Package(info, &b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// place says where a text belongs on a system with such packages, and how it is there.
func place(f file, kind string) (path string, data []byte) {
	zsh := map[string]string{"deb": "/usr/share/zsh/vendor-completions/_turnwise", "rpm": "/usr/share/zsh/site-functions/_turnwise"}
	switch f.name {
	case "LICENSE":
		return "/usr/share/doc/turnwise/copyright", f.data
	case "completions/turnwise.bash":
		return "/usr/share/bash-completion/completions/turnwise", f.data
	case "completions/turnwise.fish":
		return "/usr/share/fish/vendor_completions.d/turnwise.fish", f.data
	case "completions/turnwise.zsh":
		return zsh[kind], f.data
	}
	if page, is := strings.CutPrefix(f.name, "man/"); is {
		return "/usr/share/man/man1/" + page + ".gz", gzipped(f.data)
	}
	return "/usr/share/doc/turnwise/" + f.name, f.data
}

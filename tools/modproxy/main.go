// Modproxy makes a folder out of the tags of a git repository. With GOPROXY=file://FOLDER, it serves the modules as a proxy
// does:
//
//	modproxy REPOSITORY FOLDER VERSION [SUBFOLDER...]
//
// The module in the root is taken at the tag VERSION, the one in SUBFOLDER at SUBFOLDER/VERSION, as the go command would.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("modproxy: ")
	if len(os.Args) < 4 {
		log.Fatal("usage: modproxy REPOSITORY FOLDER VERSION [SUBFOLDER...]")
	}
	repository, folder, version := os.Args[1], os.Args[2], os.Args[3]
	for _, sub := range append([]string{""}, os.Args[4:]...) {
		if err := add(repository, folder, version, sub); err != nil {
			log.Fatalf("module in %q: %v", path.Join(".", sub), err)
		}
	}
}

func add(repository, folder, version, sub string) error {
	tag := path.Join(sub, version)
	cat := exec.Command("git", "-C", repository, "show", tag+":"+path.Join(sub, "go.mod"))
	cat.Stderr = os.Stderr
	mod, err := cat.Output()
	if err != nil {
		return err
	}
	m := module.Version{Path: modfile.ModulePath(mod), Version: version}
	if err := module.Check(m.Path, m.Version); err != nil {
		return err
	}
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	dir := filepath.Join(folder, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC()})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": mod} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		return err
	}
	if err := zip.CreateFromVCS(f, m, repository, tag, sub); err != nil {
		return err
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	fmt.Printf("%s %s: %d KB\n", m.Path, m.Version, fi.Size()/1024)
	return f.Close()
}

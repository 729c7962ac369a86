package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// giveSmallDisk moves a member's data onto a small disk of its own, in memory, so that it can be filled without harm
// to anybody else. If mounting is not permitted, the fault is left out and the log says so.
func (s *scene) giveSmallDisk() error {
	m := s.cluster.Member(len(s.cluster.Members()) - 1)
	data := filepath.Join(m.Dir(), "data")
	m.Kill()
	aside := data + "-aside"
	if err := os.Rename(data, aside); err != nil {
		return err
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	mounted := mountSmallDisk(data)
	if out, err := exec.Command("cp", "-a", aside+"/.", data).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if mounted == nil {
		s.disk = data
	} else {
		s.logf("left out: disk full on one member; mounting a small disk: %v", mounted)
	}
	return start(m)()
}

func (s *scene) takeSmallDisk() {
	if s.disk != "" {
		unmount(s.disk)
	}
}

// fillDisk leaves no byte free. A server that ends because of it is started again on heal.
func fillDisk(s *scene) (func() error, error) {
	m := s.cluster.Member(len(s.cluster.Members()) - 1)
	filler := filepath.Join(s.disk, "filler")
	f, err := os.Create(filler)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			return nil, err
		}
	}
	return func() error {
		if err := os.Remove(filler); err != nil {
			return err
		}
		m.Kill() // it may hang, or refuse to write for good
		return start(m)()
	}, nil
}

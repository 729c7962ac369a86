package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/turnwise/turnwise/verify/servers"
)

// Contestants in other languages run the scenario themselves, so that neither their start nor a pipe is measured.

//go:embed peers/Curator.java
var curatorProgram []byte

//go:embed peers/kazoo_peer.py
var kazooProgram []byte

func curator(addr string, s Scenario) (*exec.Cmd, error) {
	jars, err := servers.Find("curator")
	if err != nil {
		return nil, err
	}
	java, err := servers.Java()
	if err != nil {
		return nil, err
	}
	source, err := unpack("Curator.java", curatorProgram)
	if err != nil {
		return nil, err
	}
	args := append([]string{"-Xss256k", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", filepath.Join(jars, "*"), source}, s.args(addr, "/curator")...)
	return exec.Command(java, args...), nil
}

func kazoo(addr string, s Scenario) (*exec.Cmd, error) {
	folder, err := servers.Find("kazoo")
	if err != nil {
		return nil, err
	}
	source, err := unpack("kazoo_peer.py", kazooProgram)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("python3", append([]string{source}, s.args(addr, "/kazoo")...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+folder, "PYTHONDONTWRITEBYTECODE=1")
	return cmd, nil
}

// args returns what a child is told.
func (s Scenario) args(addr, root string) []string {
	return []string{
		"addr=" + addr, "path=" + root + "/" + s.Line, "shape=" + string(s.Shape), "kind=" + string(s.Kind),
		fmt.Sprint("clients=", s.Clients), fmt.Sprint("workers=", max(1, s.Workers)), fmt.Sprint("lines=", max(1, s.Lines)),
		fmt.Sprint("reads=", s.Reads), fmt.Sprint("permits=", s.Permits),
		fmt.Sprint("warm=", (3 * s.Warm).Milliseconds()), fmt.Sprint("window=", s.Window.Milliseconds()), // their compilers and caches start cold each time
	}
}

// unpack writes a program to where its interpreter finds it.
func unpack(name string, program []byte) (string, error) {
	f, err := scratch()
	if err != nil {
		return "", err
	}
	path := filepath.Join(f.path, name)
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, program) {
		return path, nil
	}
	return path, os.WriteFile(path, program, 0o644)
}

// runChild starts the contestant's program, and reads "turns <n> nanos <n>".
func runChild(ctx context.Context, c *Contestant, addr string, s Scenario) (Sample, error) {
	cmd, err := c.Program(addr, s)
	if err != nil {
		return Sample{}, err
	}
	var said, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &errs
	child, err := servers.StartProcess(cmd)
	if err != nil {
		return Sample{}, err
	}
	defer child.Kill()
	select {
	case <-child.Exited():
	case <-ctx.Done():
		return Sample{}, fmt.Errorf("%s: %w\n%s", c.Name, ctx.Err(), errs.String())
	}
	for in := bufio.NewScanner(&said); in.Scan(); {
		var turns, nanos int64
		if _, err := fmt.Sscanf(in.Text(), "turns %d nanos %d", &turns, &nanos); err == nil && turns > 0 {
			return Sample{Per: time.Duration(nanos / turns), Turns: turns}, nil
		}
	}
	return Sample{}, errors.New(strings.TrimSpace(c.Name + " gave no figures: " + said.String() + errs.String()))
}

package docs

import (
	"context"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/kube"
	"github.com/turnwise/turnwise/coord/trace"
	"github.com/turnwise/turnwise/coord/zk"
	"github.com/turnwise/turnwise/recipes/election"
)

// These are what pages show that have one block of code each.

func required(ctx context.Context, servers []string) (*coord.Client, error) {
	client, err := zk.Connect(ctx, servers, zk.WithClient(coord.Require(coord.Strength{
		Restart: coord.Remembers,
		Death:   coord.ByTTL,
	})))
	return client, err
}

func inAPod(ctx context.Context, lead func(context.Context, *election.Term) error) error {
	client, err := kube.Connect(ctx, "") // the namespace, the API server and the token of this pod
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = election.New(client, "reports").Run(ctx, nil, lead)
	return err
}

func traced(ctx context.Context, servers []string, file *os.File) (*coord.Client, error) {
	client, err := zk.Connect(ctx, servers, zk.WithClient(coord.WithObserver(trace.To(file, "prod"))))
	return client, err
}

type rule struct{ WaitFor rules.WaitFor }

func acquired(ctx context.Context, session driver.Session, entry driver.Entry, rule rule, grant func(driver.Place) error) error {
	place, ahead, err := session.Join(ctx, entry)
	for err == nil {
		wait := rule.WaitFor(place.Node(), ahead)
		if len(wait) == 0 {
			return grant(place)
		}
		ahead, err = place.Await(ctx, wait)
	}
	return err
}

var _, _, _, _ = required, inAPod, traced, acquired

// The first program that people see is one.
func TestTheProgramInTheReadmeIsCompiled(t *testing.T) {
	_, program, _ := strings.Cut(read(t, "../README.md"), "```go\n")
	program, _, _ = strings.Cut(program, "```")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const theirs = "package main\n\nimport (\n\t\"context\"\n\n\t\"github.com/turnwise/turnwise/coord\"\n)\n\nfunc ship(context.Context, coord.Token) error { return nil }\n"
	if strings.Count(program, "ship(") != 1 {
		t.Fatalf("this is another program:\n%s", program)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(root, "examples", "readme") // there is no such folder
	overlay := write("overlay.json", `{"Replace": {"`+at+`/main.go": "`+write("main.go", program)+`", "`+at+`/ship.go": "`+write("ship.go", theirs)+`"}}`)
	build := exec.Command("go", "build", "-overlay", overlay, "-o", filepath.Join(dir, "out"), "./examples/readme")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

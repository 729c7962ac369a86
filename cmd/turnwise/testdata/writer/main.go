// Writer is a command for the tests, and also what it starts. Each process writes its token and its number to a log, again
// and again, and ignores the signals that it can.
//
//	writer family LOG STARTED   writes, beside a child, one in a session of its own, and one after a double fork; makes STARTED then
//	writer short LOG            writes for a moment
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	switch os.Args[1] {
	case "family":
		family(os.Args[2], os.Args[3])
	case "fork": // a child that is left behind
		begin("one", false, os.NewFile(3, "begun"))
	case "one":
		write(os.Args[2], long, os.NewFile(3, "begun"))
	case "short":
		write(os.Args[2], 20, nil)
	}
}

func family(log, started string) {
	r, w, err := os.Pipe()
	must(err)
	begin("one", false, w)
	begin("one", true, w)
	begin("fork", true, w)
	w.Close()
	for range 3 {
		_, err := r.Read(make([]byte, 1))
		must(err)
	}
	write(log, 1, nil) // the log tells the test whom to kill in the end
	must(os.WriteFile(started+"~", []byte(strconv.Itoa(os.Getpid())), 0o600))
	must(os.Rename(started+"~", started))
	write(log, long, nil)
}

// begin starts another writer, which reports to begun that it writes.
func begin(mode string, session bool, begun *os.File) {
	c := exec.Command(os.Args[0], mode, os.Args[2])
	c.ExtraFiles = []*os.File{begun}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	must(c.Start())
}

// long is longer than a round takes, but not forever: the test itself may be killed.
const long = 60_000

// write writes lines until the log has gone.
func write(log string, lines int, begun *os.File) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	f, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND, 0)
	must(err)
	for n := range lines {
		_, err := fmt.Fprintf(f, "\n%s %d .", os.Getenv("TURNWISE_TOKEN"), os.Getpid()) // a whole one begins and ends so
		must(err)
		if n == 0 && begun != nil {
			_, err := begun.Write([]byte{1})
			must(err)
			begun.Close()
		}
		if _, err := os.Stat(log); err != nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

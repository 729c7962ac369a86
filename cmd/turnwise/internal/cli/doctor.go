package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func doctorCommand(s *service) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor [URL]",
		Short: "See whether a service can be used, and what it promises",
		Long: `See whether a service can be used: whether it answers, its settings are safe and its rights suffice, by taking a lock that nobody
else uses. Then say what it promises, and how the commands that run here would be ended.`,
		Args: atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				if s.url != "" || s.profile != "" {
					return usage("the URL stands there twice: as an argument, and as --backend or --profile")
				}
				s.url = args[0]
			}
			ctx, stop := interruptible()
			defer stop()
			return examine(ctx, s)
		},
	}
}

func examine(ctx context.Context, s *service) error {
	out := &printer{}
	to, _, err := s.find()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "service    %s\n", to)
	if dir := to.Directory(); dir != "" {
		fmt.Fprintf(out, "directory  %s\n", dir)
	}
	if to.Hosts() == 1 {
		fmt.Fprintln(out, "servers    one is named: if it fails, nobody is asked in its place")
	}
	reach, cancel := context.WithTimeout(ctx, reachFor)
	defer cancel()
	began := time.Now()
	client, err := s.open(reach, to, backend.WithClient(coord.WithOwnerLabel("doctor")))
	if err != nil {
		return err
	}
	defer client.Close()
	fmt.Fprintf(out, "answers    yes, after %v\n", time.Since(began).Round(time.Millisecond))

	lines, err := client.Lines(ctx, "")
	if err != nil {
		return refused(err)
	}
	fmt.Fprintf(out, "lines      %d\n", len(lines))

	// A service that is used for the first time, or may have forgotten something, lets nobody in for a TTL.
	host, _ := os.Hostname()
	name := fmt.Sprintf("turnwise-doctor/%s-%d", host, os.Getpid())
	if coord.CheckName(name) != nil {
		name = fmt.Sprintf("turnwise-doctor/%d", os.Getpid())
	}
	wait, stop := context.WithTimeout(ctx, 2*reachFor)
	defer stop()
	began = time.Now()
	pause := time.AfterFunc(showAfter, func() {
		if left := recovery(client); left > 0 {
			fmt.Printf("new        %s\n", recovers(to, left))
		}
	})
	defer pause.Stop()
	hold, err := mutex.New(client, name).Lock(wait)
	if err != nil {
		return refused(err)
	}
	locked := time.Since(began)
	sure := time.Until(hold.Deadline())
	if err := hold.Release(); err != nil {
		return refused(err)
	}
	fmt.Fprintf(out, "a lock     taken after %v, given back\n", locked.Round(100*time.Microsecond))
	if sure < endless {
		fmt.Fprintf(out, "a hold     is sure for %v if nothing is heard of the service\n", sure.Round(100*time.Millisecond))
	} else {
		fmt.Fprintln(out, "a hold     lasts until the kernel says that all who have it are dead")
	}
	for about, says := range client.Driver().Strength().Aspects() {
		fmt.Fprintf(out, "promise    %s %s\n", about, says)
	}
	fmt.Fprintf(out, "commands   %s\n", endedBy())
	return out.failed
}

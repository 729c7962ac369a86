package planted

// testsTool are tests of the tool, in one of its packages.
func testsTool(pkg, run string) Tests {
	return Tests{Module: "cmd/turnwise", Package: pkg, Run: run}
}

var tool = []Bug{
	one("tool: what a command is given has to be text",
		"cmd/turnwise/internal/run/command.go", `all = append(all, []byte(t))`, `all = append(all, []byte(string([]rune(t))))`,
		testsTool("./internal/run", "TestACommandIsCarriedByteForByte")),
	one("tool: JSON brings what others write to a terminal as it is",
		"cmd/turnwise/internal/status/json.go", `&& coord.Printable(string(r)) == string(r)`, `&& coord.Printable(string(r)) != ""`,
		testsTool("./internal/status", "TestJSONIsSafeToShow")),
	one("tool: what is said waits for who does not read it",
		"cmd/turnwise/internal/people/people.go", `case <-time.After(wait):`, `case <-time.After(max(wait, time.Hour)):`,
		testsTool("./internal/people", "TestWhoDoesNotReadHoldsNobodyUp")),
	one("tool: a member waits for who does not read its tokens",
		"cmd/turnwise/internal/cli/join.go", `fmt.Fprintln(people.Out, h.Token())`, `fmt.Println(h.Token())`,
		testsTool(".", "TestScripts/file/unread")),
	one("tool: slots by the time of a place are reckoned across the hours at which its clocks are set",
		"cmd/turnwise/internal/cli/cron.go", `p.spec.Location = time.FixedZone("", offset)`, `p.spec.Location, _ = p.at, offset`,
		testsTool("./internal/cli", "TestASlotIsWhatTheClockOfAPlaceShows")),
	one("tool: a trace is written to whatever somebody has put into a common directory",
		"cmd/turnwise/internal/cli/trace.go", `err == nil && in.Mode&0o002 != 0 &&`, `err == nil && false && in.Mode != 0 &&`,
		testsTool("./internal/cli", "TestATraceInACommonDirectoryHasOneName")),
	one("tool: a command may go on until the deadline itself",
		"cmd/turnwise/internal/cli/lease.go", `kill := deadline - run.Moment(margin)`, `kill := deadline`,
		testsTool("./internal/cli", "TestTheLimitsOfALease")),
	one("tool: nothing is left of the margin when the guardian fails",
		"cmd/turnwise/internal/cli/lease.go", `Last: kill + run.Moment(margin/4)}`, `Last: kill + run.Moment(margin)}`,
		testsTool("./internal/cli", "TestTheLimitsOfALease")),
	one("tool: a long grace has the command end while nothing is wrong",
		"cmd/turnwise/internal/cli/lease.go", `grace := min(l.grace, max(l.longest/2-margin, 0))`, `grace := l.grace`,
		testsTool("./internal/cli", "TestTheLimitsOfALease")),
	one("tool: what ends after the deadline has ended in time",
		"cmd/turnwise/internal/cli/lease.go", `l.deadline != 0 && at <= l.deadline }`, `l.deadline != 0 }`,
		testsTool("./internal/cli", "TestTheLimitsOfALease")),
	one("tool: a hold that was lost at once has no limit",
		"cmd/turnwise/internal/cli/lease.go", `case left <= 0 && l.deadline == 0:`, `case left <= 0 && l.deadline > 0:`,
		testsTool("./internal/cli", "TestTheLimitOfAHoldThatIsLostOrEndless")),
	one("tool: a command whose time is over is started",
		"cmd/turnwise/internal/guard/guard.go", `for limit.Over() {`, `for limit.Over() && first.Start == nil {`,
		testsTool("./internal/guard", "TestACommandWhoseTimeIsOverIsNotStarted")),
	one("tool: what a guardian had begun when it was killed cannot be run",
		"cmd/turnwise/internal/guard/guard.go", `		go r.listen(reports)
		return r, nil
	}
	if`, `		return nil, err
	}
	if`, testsTool("./internal/guard", "TestAGuardianThatIsKilledAtOnceLeavesNobodyBehind")),
	one("tool: a slow guardian is given up before the command is dead",
		"cmd/turnwise/internal/guard/guard.go", `		run.KillBelow(`, `		_, _ = p, run.KillBelow; func(int, string) {}(`,
		testsTool("./internal/guard", "TestTheGuardianIsGivenUpLast")),
	one("tool: a process is whoever has its number",
		"cmd/turnwise/internal/run/process_linux.go", `return now.began == p.began && `, `return now.began != "" && `,
		testsTool("./internal/run", "TestAProcessIsKnownByMoreThanItsNumber")),
	one("tool: an ID that two have is the last one's",
		"cmd/turnwise/internal/cli/break.go", `	case 1:
		return n, nil
	}`, `	default:
		return n, nil
	}`, testsTool("./internal/cli", "TestAnIDMayBeShortButNotAmbiguous")),
	one("tool: the page's socket is open to others",
		"cmd/turnwise/internal/cli/socket.go", `syscall.Umask(0o177)`, `syscall.Umask(0o111)`,
		testsTool("./internal/cli", "TestTheSocketOfThePageIsItsUsersAlone")),
	one("tool: a holder listens to whoever speaks without end",
		"cmd/turnwise/internal/cli/door.go", `io.LimitReader(c, mostSaid)`, `io.LimitReader(c, mostSaid<<20)`,
		testsTool("./internal/cli", "TestWhoSpeaksWithoutEndAtADoorIsHungUpOn")),
	one("tool: a file in the place of a door is taken away",
		"cmd/turnwise/internal/cli/door.go", ` && isSocket(path) {`, ` {`, testsTool("./internal/cli", "TestAFileInThePlaceOfADoorStays")),
	one("tool: the page is shown under any name that points here",
		"cmd/turnwise/internal/serve/serve.go", `case p.secret == nil && !thisMachine(r.Host):`, `case p.secret == nil && r.Host == "":`,
		testsTool("./internal/serve", "TestWhoMayLook/on_this_machine")),
	one("tool: a command is killed at once though nobody is let in yet",
		"cmd/turnwise/internal/cli/shift.go", `!errors.Is(loss, coord.ErrForgot) || `, `errors.Is(loss, coord.ErrForgot) || `,
		testsTool(".", "TestTheServiceForgets/and_the_command_ends")),
	one("tool: what the shell had started before is the command's",
		"cmd/turnwise/internal/run/tree_linux.go", `return ok && began == statOf(pid).began`, `return ok && began == ""`,
		testsTool(".", "TestWhatTheShellHadStartedOutlivesTheGuardian")),
	one("tool: what a guardian has left behind is all that turnwise looks after",
		"cmd/turnwise/internal/run/tree.go", `before: kept.Children})`, `before: Children{}})`,
		testsTool("./internal/guard", "TestAGuardianThatIsKilledHarmsNoOtherCommand")),
	one("tool: the commands of shards outlive their member",
		"cmd/turnwise/internal/cli/shift.go", `!s.alone && !s.terminal.among`, `!s.alone`,
		testsTool(".", "TestScripts/file/dividing")),
	one("tool: a command's own exit code is a loss of the hold",
		"cmd/turnwise/internal/cli/codes.go", `codeOf(err) == codeLost && !errors.As(err, &own)`, `codeOf(err) == codeLost && own == nil`,
		testsTool(".", "TestScripts/file/schedule")),
	one("tool: an ask reaches whoever holds",
		"cmd/turnwise/internal/asks/asks.go", `return !names(n) || slices`, `return n.Asks != "" || slices`,
		testsTool("./internal/asks", "TestWhomAnAskReaches")),
	one("tool: who holds beside a holder is heard asking",
		"cmd/turnwise/internal/asks/asks.go", `if n.Holds {`, `if false {`,
		testsTool("./internal/asks", "TestWhomAnAskReaches")),
	one("tool: who asks is heard again and again",
		"cmd/turnwise/internal/cli/asked.go", `last = n.Token
`, `last = h.Token()
`, testsTool("./internal/cli", "TestEachWhoAsksIsHeardOnce")),
	one("tool: a crowd that asks is heard all at once",
		"cmd/turnwise/internal/cli/asked.go", `sleep(ctx, betweenAsks)`, `sleep(ctx, 0)`,
		testsTool("./internal/cli", "TestACrowdIsNotHeardAllAtOnce")),
	one("tool: who asks may write a log full with his name",
		"cmd/turnwise/internal/cli/asked.go", `len(r) > mostOfOthers {`, `len(r) > mostOfOthers<<20 {`,
		testsTool("./internal/cli", "TestWhatOthersSayOfThemselvesIsBounded")),
	one("tool: what the command has started is told as well",
		"cmd/turnwise/internal/run/tree.go", `unix.Kill(t.pid, s.(`, `unix.Kill(-t.pid, s.(`,
		testsTool("./internal/run", "TestTheCommandAloneIsTold")),
	one("tool: who gives way to a better candidate stands no more",
		"cmd/turnwise/internal/cli/job.go", `if errors.Is(err, errOutranked) {`, `if errors.Is(err, errOutranked) && j.restart == "always" {`,
		testsTool("./internal/cli", "TestWhetherElectStandsAgain")),
	one("tool: a circle is shown with all its waits, however many there are",
		"cmd/turnwise/internal/lines/waits.go", `len(circle.Waits) < mostWaits {`, `len(circle.Waits) < mostWaits || true {`,
		testsTool("./internal/lines", "TestALineOfAStrangerCostsLittleToThinkAbout")),
	one("tool: a tangled line is thought about without end",
		"cmd/turnwise/internal/lines/waits.go", `l.tangled() {`, `l.tangled() && false {`,
		testsTool("./internal/lines", "TestATangledLineHidesNoOther")),
	{"tool: nobody sees a board while something is thought about", []Edit{
		{"cmd/turnwise/internal/lines/survey.go", `	s.mu.Unlock()
	slices.SortFunc(all`, `	slices.SortFunc(all`},
		{"cmd/turnwise/internal/lines/survey.go", `	s.mu.Lock()
	defer s.mu.Unlock()
	s.thought = t`, `	defer s.mu.Unlock()
	s.thought = t`},
	}, testsTool("./internal/lines", "TestNobodyWaitsWhileSomethingIsThoughtAbout")},
	one("tool: a page of some lines tells of others that are asked for",
		"cmd/turnwise/internal/lines/ask.go", `if !strings.HasPrefix(name, s.prefix) {`, `if !strings.HasPrefix(name, "") {`,
		testsTool("./internal/serve", "TestAPageOfSomeLinesTellsNothingOfOthers")),
}

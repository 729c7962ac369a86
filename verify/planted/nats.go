package planted

var nats = []Bug{
	one("nats: a message is longer than the server has announced",
		"coord/nats/vet.go", `if v.rest <= int64(len(lineEnd)) && b[0]`, `if v.rest < 0 && b[0]`,
		Tests{Module: "coord/nats", Package: ".", Run: "^TestAServerThatLiesTakesLittleMemory$/^a_message_in_the_end_of_another$"}),
	one("nats: a message that is no register's ends a list",
		"coord/nats/list.go", `f.it, f.err = storekit.Listed(key, f.it, f.err)`, `_, _ = storekit.Listed(key, f.it, f.err)`,
		testsIn("coord/nats", "TestAMessageThatIsNoRegisterHarmsNoOther")),
	one("nats: a swap goes behind whatever stands there",
		"coord/nats/swap.go", `	m.Header.Set("Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(seq, 10))`, `	_ = strconv.FormatUint(seq, 10)`,
		testsIn("coord/nats", "TestALateSwapReplacesNothing")),
	one("nats: messages can be taken away",
		"coord/nats/memory.go", `MessageTTL: true, DenyDelete: true, DenyPurge: true,`, `MessageTTL: true,`, testsIn("coord/nats", "TestNobodyTakesMessagesAway")),
	one("nats: a message that has gone is an empty register",
		"coord/nats/memory.go", `	if isCode(err, noMessage) {
		return true, nil`, `	if isCode(err, noMessage) {
		return false, nil`, testsIn("coord/nats", "TestAMessageThatHasGoneIsMissedThoughTheStreamIsAsItWas")),
	one("nats: a memory that is over has empty registers",
		"coord/nats/read.go", `if _, err := s.still(ctx, c, known, nil); err != nil {`, `if _, err := s.info(ctx, c, nil); err != nil {`,
		testsIn("coord/nats", "TestAMemoryThatIsOverHasNoEmptyRegisters")),
	one("nats: a memory that is over has a list without registers",
		"coord/nats/list.go", `info, err := s.still(ctx, c, known, map`, `info, err := s.info(ctx, c, map`,
		testsIn("coord/nats", "TestAMemoryThatIsOverHasNoEmptyRegisters")),
	{"nats: a server that was started again remembers", []Edit{
		{"coord/nats/memory.go", `|| s.monitor == "" && m.run != c.run`, `|| s.monitor == "-"`},
		{"coord/nats/memory.go", `	if s.monitor == "" && known.run != c.run {`, `	if s.monitor == "-" {`},
	}, testsIn("coord/nats", "TestAServerThatWasStartedAgainMayHaveForgotten")},
	one("nats: a stream may have less than it had",
		"coord/nats/memory.go", `int64(info.State.Last) < seen ||`, ``, testsIn("coord/nats", "TestADiskThatIsPutBackIsNoticed")),
	one("nats: what is seen while the server is asked counts as lost",
		"coord/nats/memory.go", `int64(info.State.Last) < seen ||`, `int64(info.State.Last) < m.last.Load() ||`,
		testsIn("coord/nats", "TestWhatIsSeenWhileTheServerIsAskedIsNoLoss")),
	one("nats: a stream may be changed",
		"coord/nats/memory.go", `	if string(got) != string(made) {`, `	if got == nil && made == nil {`, testsIn("coord/nats", "TestAMessageThatHasGoneIsNoEmptyRegister")),
	one("nats: notes that do not fit are not told at all",
		"coord/nats/notes.go", `	if err != nil { // too many, or a stranger's
		a.missed()
`, `	if err != nil {
`, testsIn("coord/nats", "TestNotesThatAreTooManyAreSaidToBeLost")),
	one("nats: nobody is told what was not heard without a connection",
		"coord/nats/conn.go", `		s.ears.missed() // what was told while there was no connection
`, ``, testsIn("coord/nats", "TestWhatIsToldWhileThereIsNoConnectionIsSaidToBeLost")),
	one("nats: a server of a cluster will do",
		"coord/nats/conn.go", `	case cluster != "":`, `	case cluster == "-":`,
		Tests{Module: "coord/nats", Package: ".", Run: "^TestAServerThatCannotBeUsedIsRefused$/^of_a_cluster$"}),
	one("nats: who has no monitor ends the memory of those who have one",
		"coord/nats/memory.go", `err == nil && has != (s.monitor != "")`, `err == nil && has != has`,
		testsIn("coord/nats", "TestWhoHasNoMonitorDoesNotEndTheMemoryOfThoseWhoHaveOne")),
	one("nats: who may not hear any more goes on as if he heard",
		"coord/nats/hear.go", `		case errors.Is(err, natsgo.ErrPermissionViolation): // the`, `		case err == nil: // the`, testsIn("coord/nats", "TestWhoMayHearAgainIsTold")),
	one("nats: any server's monitor will do",
		"coord/nats/conn.go", `	case says.ID != c.run:`, `	case says.ID == "":`, testsIn("coord/nats", "TestAMonitorMustShowWhatIsPromised")),
	one("nats: a server may answer before a write is on its disk",
		"coord/nats/conn.go", `	case !says.JetStream.Config.SyncAlways:`, `	case !says.JetStream.Config.SyncAlways && false:`,
		testsIn("coord/nats", "TestAMonitorMustShowWhatIsPromised")),
	one("nats: what a server says is believed",
		"coord/nats/vet.go", `err != nil || n > maxMessage`, `err != nil`,
		Tests{Module: "coord/nats", Package: ".", Run: "^TestAServerThatLiesTakesLittleMemory$/^a_message_of_eight_gigabytes$"}),
	one("nats: notes have more room than the headers of a message",
		"coord/nats/notes.go", `const notesRoom = 63 << 10`, `const notesRoom = 128 << 10`,
		Tests{Module: "coord/nats", Package: ".", Run: "^TestStore$/^as_it_comes$/^06_/^however_large_together$"}),
	one("nats: what goes by itself shows that the stream has lost something",
		"coord/nats/memory.go", `	return !blank, s.layFirst(ctx, c, m)`, `	return true, nil`,
		testsIn("coord/nats", "TestTheFirstMessageOfAStreamStands")),
	one("nats: an answer in the place of the first message shows a loss",
		"coord/nats/memory.go", `	if isCode(err, noMessage) {
		return true, nil`, `	if first.Seq != 1 {
		return true, nil`, testsIn("coord/nats", "TestAStrangerWhoHasAnswersSentToTheFirstMessageEndsNoHold")),
	one("nats: a server that takes nothing any more has forgotten all",
		"coord/nats/swap.go", `		if _, err := s.still(ctx, c, known, nil); err != nil {
			return err
		}
		return errors.New("JetStream did not take it")`, `		return errNobody`, testsIn("coord/nats", "TestALameDuckEndsNoHold")),
	one("nats: who has missed that a register was emptied takes that for a loss",
		"coord/nats/read.go", `		known.seen.Forget(key)
`, `		if !before.version.IsZero() {
			return cur, at, s.hasGoneBack(known)
		}
		known.seen.Forget(key)
`, testsIn("coord/nats", "TestWhatWasEmptiedLongAgoIsNoLoss")),
	one("nats: answers wait behind what is told",
		"coord/nats/hear.go", `	e.nc = nc
`, `	e.nc = c.nc
`,
		testsIn("coord/nats", "TestAStrangerWhoTellsMoreThanFitsEndsNoHold")),
	one("nats: whoever gives a stream the name of a memory makes it that",
		"coord/nats/memory.go", `i.memory() == m.id && i.Created.Equal(m.made)`, `i.memory() == m.id`,
		testsIn("coord/nats", "TestAStrangerWhoNamesTheMemory")),
	one("nats: a call lasts until the server reads it",
		"coord/nats/conn.go", `	case <-within.Done():
	}`, `	case <-context.Background().Done():
	}`, testsIn("coord/nats", "TestAServerThatReadsNothingHoldsUpNoCall")),
	one("nats: a page of a list need not reach back to the one before",
		"coord/nats/list.go", `if offset > 0 && (len(subjects) == 0 || subjects[0] > last) {`, `if offset > 0 && len(subjects) == 0 {`,
		testsIn("coord/nats", "TestWhatGoesWhileItIsListedHidesNothing")),
	one("nats: a stream that is changed later is gone on with",
		"coord/nats/memory.go", `if changed := s.isOurs(c, m, &info); changed != nil {`, `if changed := s.isOurs(c, m, &info); changed != nil && false {`,
		testsIn("coord/nats", "TestAStreamThatIsChangedIsNotGoneOnWith")),
	one("nats: Open tries to delete a stream that may be somebody's",
		"coord/nats/open.go", `s.root+"/none"`, `s.root+"-none"`, testsIn("coord/nats", "TestOpenDeletesNoStreamOfOthers")),
	one("nats: New hands the library what is no URL",
		"coord/nats/connect.go", `if _, err := url.Parse(address); err != nil {`, `if _, err := url.Parse(address); err != nil && false {`,
		testsIn("coord/nats", "TestNewTellsNoPassword")),
	one("nats: what stands where rights are tried keeps everybody out",
		"coord/nats/open.go", `if _, err := s.lastOf(ctx, c, known.subject(s.root, "rights")); err != nil && !isCode(err, noMessage) {`,
		`if _, _, err := s.content(ctx, c, known, "rights"); err != nil {`,
		testsIn("coord/nats", "TestAStrangerWhoHasAnAnswerSentToWhereRightsAreTriedKeepsNobodyOut")),
	one("nats: who writes before the first message keeps it away",
		"coord/nats/memory.go", `	if m.first == "" || !isNew || info.State.First > 1 {`, `	if m.first == "" || !blank {`,
		testsIn("coord/nats", "TestAStrangerWhoWritesBeforeTheFirstMessageEndsNoHold")),
}

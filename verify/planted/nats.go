package planted

var nats = []Bug{
	one("nats: a message is longer than the server has announced",
		"coord/nats/vet.go", `if v.rest <= int64(len(lineEnd)) && b[0]`, `if v.rest < 0 && b[0]`, testsIn("coord/nats", "TestAServerThatLiesTakesLittleMemory")),
	one("nats: a message that is no register's ends a list",
		"coord/nats/list.go", `f.it, f.err = storekit.Listed(key, f.it, f.err)`, `_, _ = storekit.Listed(key, f.it, f.err)`,
		testsIn("coord/nats", "TestAMessageThatIsNoRegisterHarmsNoOther")),
	one("nats: a swap goes behind whatever stands there",
		"coord/nats/swap.go", `	m.Header.Set("Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(seq, 10))`, `	_ = strconv.FormatUint(seq, 10)`,
		testsIn("coord/nats", "TestALateSwapReplacesNothing")),
	one("nats: messages can be taken away",
		"coord/nats/memory.go", `MessageTTL: true, DenyDelete: true, DenyPurge: true,`, `MessageTTL: true,`, testsIn("coord/nats", "TestNobodyTakesMessagesAway")),
	one("nats: a message that has gone is an empty register",
		"coord/nats/read.go", `if before.mustStand() {`, `if before.mustStand() && false {`, testsIn("coord/nats", "TestAMessageThatHasGoneIsNoEmptyRegister")),
	one("nats: a memory that is over has empty registers",
		"coord/nats/read.go", `if _, err := s.still(ctx, c, known); err != nil {`, `if _, err := s.info(ctx, c); err != nil {`,
		testsIn("coord/nats", "TestAMemoryThatIsOverHasNoEmptyRegisters")),
	one("nats: a memory that is over has a list without registers",
		"coord/nats/list.go", `if info.memory() != known.id {`, `if known.id == "" {`,
		testsIn("coord/nats", "TestAMemoryThatIsOverHasNoEmptyRegisters")),
	{"nats: a server that was started again remembers", []Edit{
		{"coord/nats/memory.go", `|| s.monitor == "" && m.run != c.run`, `|| s.monitor == "-"`},
		{"coord/nats/memory.go", `	if s.monitor == "" && known.run != c.run {`, `	if s.monitor == "-" {`},
	}, testsIn("coord/nats", "TestAServerThatWasStartedAgainMayHaveForgotten")},
	one("nats: a stream may have less than it had",
		"coord/nats/memory.go", `int64(info.State.Last) < m.last.Load() ||`, ``, testsIn("coord/nats", "TestADiskThatIsPutBackIsNoticed")),
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
	one("nats: any server's monitor will do",
		"coord/nats/conn.go", `	case says.ID != c.run:`, `	case says.ID == "":`, testsIn("coord/nats", "TestAMonitorMustShowWhatIsPromised")),
	one("nats: a server may answer before a write is on its disk",
		"coord/nats/conn.go", `	case !says.JetStream.Config.SyncAlways:`, `	case !says.JetStream.Config.SyncAlways && false:`,
		testsIn("coord/nats", "TestAMonitorMustShowWhatIsPromised")),
	one("nats: what a server says is believed",
		"coord/nats/vet.go", `err != nil || n > maxMessage`, `err != nil`,
		Tests{Module: "coord/nats", Package: ".", Run: "^TestAServerThatLiesTakesLittleMemory$/^a_message_of_eight_gigabytes$"}),
}

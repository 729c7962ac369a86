package planted

const spoiltHidesNoOther = "a_register_that_somebody_has_spoilt_hides_no_other"

// stores are the bugs of stores, most of them open doors for strangers, and of the rule for passwords.
var stores = []Bug{
	one("postgres: half a note goes before whatever comes next",
		"coord/postgres/listener.go", `	default:
		tell(piece)
`, `	default:
		tell(append(half, piece...))
`, testsIn("coord/postgres", "TestHalfANoteOfAStrangersHidesNone")),
	one("postgres: whose a table is does not matter",
		"coord/postgres/trust.go", `case !trusted:`, `case !trusted && false:`, testsIn("coord/postgres", "TestAStrangerWhoMayCreateInTheSchema")),
	one("postgres: what is attached to a table does not matter",
		"coord/postgres/trust.go", `case has != "":`, `case false:`, testsIn("coord/postgres", "TestWhatAStrangerHasLeftOnATableIsRefused")),
	one("postgres: who may make triggers does not matter",
		"coord/postgres/trust.go", `case triggers != "":`, `case false:`, testsIn("coord/postgres", "TestAStrangerWhoMayMakeTriggers")),
	one("postgres: a statement goes to whatever has the table's name",
		"coord/postgres/store.go", `s.pooler || known.exposed`, `s.pooler`, testsIn("coord/postgres", "TestATableThatIsReplacedRunsNothing")),
	one("postgres: the table is looked at, and not locked before",
		"coord/postgres/conn.go", `b.Queue("LOCK TABLE ONLY " + g.table.quoted() + " IN ROW EXCLUSIVE MODE")`, `b.Queue("SELECT")`,
		testsIn("coord/postgres", "TestATableThatIsReplacedRunsNothing")),
	{"postgres: search_path is what somebody has set", []Edit{
		{"coord/postgres/conn.go", `pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true), `, ``},
		{"coord/postgres/conn.go", `('search_path', 'pg_catalog, pg_temp'), `, ``},
	}, testsIn("coord/postgres", "TestNothingOfAStrangersIsCalled")},
	one("postgres: the first question goes by the search_path",
		"coord/postgres/conn.go", `SELECT pg_catalog.pg_is_in_recovery(), `, `SELECT pg_is_in_recovery(), `, testsIn("coord/postgres", "TestNothingOfAStrangersIsCalled")),
	one("postgres: what an operator runs goes by the search_path",
		"coord/postgres/schema.go", `'::pg_catalog.text OPERATOR(pg_catalog.||)`, `'::pg_catalog.text ||`,
		testsIn("coord/postgres", "TestNothingOfAStrangersIsCalled")),
	one("postgres: the first question casts to the types of the search_path",
		"coord/postgres/conn.go", `'EXECUTE'::pg_catalog.text`, `'EXECUTE'::text`, testsIn("coord/postgres", "TestNothingOfAStrangersIsCalled")),
	one("postgres: an operator casts to the types of the search_path",
		"coord/postgres/schema.go", `to_regclass('{name}'::pg_catalog.text)`, `to_regclass('{name}'::text)`, testsIn("coord/postgres", "TestNothingOfAStrangersIsCalled")),
	one("postgres: several hosts are asked in the library's way",
		"coord/postgres/conn.go", `cc.ValidateConnect = refuseStandby`, `cc.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary`,
		testsIn("coord/postgres", "TestNothingOfAStrangersIsCalled")),
	one("postgres: the renewal of a session waits for a connection behind all that is stuck",
		"coord/postgres/swap.go", `storekit.For(ctx, &w)`, `ctx`, testsIn("coord/postgres", "TestAStrangerWhoMayInsertKeepsLinesWaiting")),
	one("mysql: the renewal of a session waits for a connection behind all that is stuck",
		"coord/mysql/swap.go", `storekit.For(ctx, &w)`, `ctx`, testsIn("coord/mysql", "TestAStrangerWhoMayInsertKeepsLinesWaiting")),
	one("mysql: a table that is almost like ours is used",
		"coord/mysql/schema.go", `case strange != "":`, `case false:`, testsIn("coord/mysql", "TestATableThatIsAlmostLikeOursIsRefused")),
	one("mysql: a view in the table's place is used",
		"coord/mysql/statements.go", `DELETE {t} FROM {t} FORCE INDEX (PRIMARY)`, `DELETE {t} FROM {t}`, testsIn("coord/mysql", "TestATableThatIsReplacedRunsNothing")),
	one("file: something else in the place of one register ends a list",
		"coord/file/list.go", `if isSpoilt(err) {`, `if isSpoilt(nil) {`, testsForgetful("file", "TestStore/disk/13_what_a_stranger_tells/"+spoiltHidesNoOther)),
	one("memcached: something else in the place of one register ends a list",
		"coord/memcached/list.go", `if it, err = storekit.Listed(e.key, it, err); err != nil {`, `if _ = storekit.Listed; err != nil {`,
		testsForgetful("memcached", "TestStore/13_what_a_stranger_tells/"+spoiltHidesNoOther)),
	one("quorum: something else in the place of one register ends a list",
		"coord/redis/quorum/acceptor.go", `k.strange = err != nil`, `if k.strange = err != nil; k.strange { return false, err }`,
		testsForgetfulQuorum("TestStore/13_what_a_stranger_tells/"+spoiltHidesNoOther)),
	one("quorum: what is strange on one server is nothing on the one that is healed",
		"coord/redis/quorum/reform.go", `u.strange = true`, ``, testsForgetfulQuorum("TestWhatOnlyAStrangeServerKnewIsNotTakenForNothing")),
	one("quorum: who finds something strange votes as if he had promised nothing",
		"coord/redis/quorum/scripts.go", `return not string.find(string.sub(s, 1, 80), '^' .. string.rep('%d', 80))`, `return false`,
		testsForgetfulQuorum("TestWhoFindsSomethingStrangeDoesNotVoteThere")),
	one("postgres: the age of one register that cannot be computed ends a list",
		"coord/postgres/statements.go", `- greatest(least(since, timestamptz '3000-01-01'), timestamptz '1000-01-01'))`, `- since)`,
		testsIn("coord/postgres", "TestStore$/^13_what_a_stranger_tells$/^"+spoiltHidesNoOther)),
	one("quorum: what one server says has been promised is believed",
		"coord/redis/quorum/poll.go", `len(believed)-i < majority`, `false`, testsForgetfulQuorum("TestABallotNearTheEndThatOneServerNamesIsNotBelieved")),
	one("quorum: a register that somebody has spoilt raises the floor of all",
		"coord/redis/quorum/scripts.go", ` and not strange(s) and string.sub(s, 1, 16) < '0100000000000000'`, ``,
		testsForgetfulQuorum("TestWhoWritesToOneLineUsesUpNoBallotsOfOthers")),
	one("postgres: a page of a list may be of any size",
		"coord/postgres/statements.go", "CASE WHEN octet_length(value) > ` + storekit.MostListed + ` THEN NULL ELSE value END", "value", testsIn("coord/postgres", "TestManyRowsThatAreLargeAreListed")),
	one("mysql: a page of a list may be of any size",
		"coord/mysql/statements.go", "IF(LENGTH(r.value) > ` + storekit.MostListed + `, NULL, r.value)", "r.value", testsIn("coord/mysql", "TestManyRowsThatAreLargeAreListed")),
	one("kube: an answer may have any number of parts",
		"coord/kube/request.go", `b.commas.N > maxCommas`, `b.commas.N < 0`, testsForgetful("kube", "TestAListOfNothingTakesLittleMemory")),
	one("etcd: an answer may have any number of parts",
		"coord/etcd/vet.go", `if !fits(whole`, `if false && !fits(whole`, testsIn("coord/etcd", "TestAnAnswerOfManyPairsTakesLittleMemory")),
	one("nats: an answer may have any number of parts",
		"coord/nats/conn.go", `commas.N > maxCommas`, `commas.N < 0`, testsIn("coord/nats", "TestAnAnswerOfNothingTakesLittleMemory")),
	one("memcached: the directory may have any number of keys",
		"coord/memcached/shelf.go", `if len(all) == mostOnOne {`, `if false {`, testsForgetful("memcached", "TestADirectoryOfManyKeysTakesLittleMemory")),
	one("redis: a sentinel that is silent holds up the next",
		"coord/redis/internal/server/dial.go", `context.WithTimeout(ctx, by.Timeout)`, `context.WithCancel(ctx)`, testsIn("coord/redis", "TestASentinelThatIsSilentKeepsNobodyFromAskingTheNext")),
	one("postgres: an error shows the address",
		"coord/postgres/open.go", `at >= 0 {`, `at > 1<<20 {`, testsIn("coord/postgres", "TestAnErrorShowsNoPassword")),
	one("mysql: triggers do not matter",
		"coord/mysql/schema.go", `case trigger != "":`, `case false:`, testsIn("coord/mysql", "TestAStrangerWhoMayMakeTriggers")),
	{"mysql: a server gets the file that it asks for", []Edit{
		{"coord/mysql/dsn.go", `	cfg.AllowAllFiles = false`, `	// cfg.AllowAllFiles = false`},
		{"coord/mysql/open.go", "\tvet(cfg)\n", ""}, // it sees nothing behind TLS
	}, testsIn("coord/mysql", "TestAnImpostorGetsNoFile")},
	one("a password goes to whoever answers with TLS",
		"coord/driver/driverkit/address.go", `cfg != nil && proves(cfg)`, `cfg != nil`, testsIn("coord/postgres", "TestAnImpostorGetsNoPassword")),
	one("a password goes anywhere in clear",
		"coord/driver/driverkit/address.go", `OnThisMachine(addr), cfg`, `cfg == nil, OnThisMachine(addr), cfg`, testsIn("coord/mysql", "TestAnImpostorGetsNoPassword")),
	one("postgres: a server has us compute for as long as it likes",
		"coord/postgres/vet.go", `rounds > maxRounds`, `rounds < 0`, testsIn("coord/postgres", "TestAServerThatWantsManyRoundsGetsNone")),
	one("a password goes to a socket that anybody can have made",
		"coord/driver/driverkit/address.go", `isSocket(addr) && !anybodyMayListen(addr)`, `isSocket(addr)`,
		Tests{Module: ".", Package: "./coord/driver/driverkit", Run: "^TestWhereAPasswordMayGo$"}),
	one("redis: a password follows wherever sentinels lead",
		"coord/redis/internal/server/dial.go", `if a.option.Password == "" ||`, `if true ||`, testsIn("coord/redis", "TestSentinelsLeadNoPasswordAway")),
	one("redis: sentinels are asked in clear, whatever the master is",
		"coord/redis/internal/server/address.go", "\t\toption.Sentinel.TLSConfig = option.TLSConfig", "\t\t_ = option", testsIn("coord/redis", "TestASentinelHasToShowACertificate")),
	one("postgres: it does not matter that the schema was renamed",
		"coord/postgres/memory.go", `case !m.sameSchema:`, `case false:`, testsIn("coord/postgres", "TestAStrangerWhoRenamesHisSchema")),
	one("redis: it does not matter that databases were exchanged",
		"coord/redis/internal/server/scripts.go", `if swaps ~= (samerun`, `if false and (samerun`, testsIn("coord/redis", "TestAStrangerWhoMayWriteOtherKeysLetsNobodyIn")),
	one("sqlfence: whose a table is does not matter",
		"fence/sqlfence/fence.go", `case wrong != "":`, `case false:`, Tests{Module: "verify/integration", Package: "./fences", Run: "^TestSQLRefusesATableOfAStrangers$"}),
	{"sharedfile: a link in the place of the versions is followed", []Edit{
		{"sharedfile/inside.go", `!named.IsDir()`, `named == nil`},
		{"sharedfile/inside.go", `r, err = above.OpenRoot(filepath.Base(f.dir))`, `r, err = os.OpenRoot(f.dir)`},
		{"sharedfile/inside.go", `err != nil || !os.SameFile(named, st) { // a link`, `err != nil || st == nil { // a link`},
	}, testsOf("sharedfile", "TestALinkInThePlaceOfTheVersionsLeadsNowhereElse")},
	one("sharedfile: whatever has the name of a version is opened",
		"sharedfile/inside.go", `!named.Mode().IsRegular() {
		err = &fs`, `named == nil {
		err = &fs`, testsOf("sharedfile", "TestWhatIsNoPlainFileIsNoVersion")),
	one("sharedfile: who reads waits for whoever has locked a version",
		"sharedfile/read.go", `ours || !known || n == locked`, `ours || !known`, testsOf("sharedfile", "TestWhoLocksWhatHeMayReadKeepsNobodyWaiting")),
	one("files: a stranger's lock keeps from being cleared what a restart has left",
		"coord/file/layout.go", `if p.strangersMayLock() {`, `if false {`, testsOf("coord/file", "TestAStrangersLockKeepsNoDamageAfterARestart")),
	one("stores: what a client requires is asked of nobody if Open is told",
		"coord/register/storekit/settings.go", `case way != ToConnect && len(s.Client) > 0:`, `case false:`, testsOf("coord/file", "TestOptions")),
}

// testsOf is a test of a package of the root module.
func testsOf(dir, name string) Tests {
	return Tests{Module: ".", Package: "./" + dir, Run: "^" + name + "$"}
}

// testsIn is a test of a module's first package.
func testsIn(module, name string) Tests {
	return Tests{Module: module, Package: ".", Run: "^" + name + "$"}
}

package model

// Result is what a walk through all states of a configuration has found.
type Result struct {
	States int
	Fault  string   // "": none
	Trace  []string // the shortest way to the fault
}

// Search walks through every state, the nearest first, but through no more states than limit.
func Search(cfg Config, limit int) (r Result, whole bool) {
	m := &machine{cfg, make(map[asked]byte)}
	type step struct {
		from int32
		what string
	}
	var first state
	seen := map[state]struct{}{first: {}}
	queue, steps := []state{first}, []step{{-1, ""}}
	words := make(map[string]string)
	fault := func(at int, last, what string) (Result, bool) {
		trace := []string{}
		if last != "" {
			trace = append(trace, last)
		}
		for i := int32(at); i > 0; i = steps[i].from {
			trace = append([]string{steps[i].what}, trace...)
		}
		return Result{len(queue), what, trace}, true
	}
	for at := 0; at < len(queue); at++ {
		if len(queue) > limit {
			return Result{States: len(queue)}, false
		}
		moves := m.moves(queue[at])
		restless := false
		for _, mv := range moves {
			if mv.bad != "" {
				return fault(at, mv.what, mv.bad)
			}
			restless = restless || mv.sure
		}
		if !restless {
			if bad := m.asleep(&queue[at]); bad != "" {
				return fault(at, "", bad)
			}
		}
		for _, mv := range moves {
			if _, known := seen[mv.state]; known {
				continue
			}
			seen[mv.state] = struct{}{}
			what, known := words[mv.what]
			if !known {
				what, words[mv.what] = mv.what, mv.what
			}
			queue = append(queue, mv.state)
			steps = append(steps, step{int32(at), what})
		}
	}
	return Result{States: len(queue)}, true
}

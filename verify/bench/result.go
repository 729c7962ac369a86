package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"
)

// Result is what one contestant did in one case.
type Result struct {
	Work, Case string
	Contestant string
	Service    Service
	Ours, Bare bool     `json:",omitempty"`
	Rounds     []Sample `json:",omitempty"`
	Counted    *Sample  `json:",omitempty"` // through the proxy
	Error      string   `json:",omitempty"`

	// Columns of works that are not scenarios, and their values.
	Extra []Column `json:",omitempty"`
}

// Column is a figure and its name.
type Column struct {
	Name  string
	Value float64
	Unit  string
}

// Median returns what a turn took in the median round.
func (r *Result) Median() time.Duration {
	_, mid, _ := r.spread()
	return mid
}

func (r *Result) spread() (low, mid, high time.Duration) {
	if len(r.Rounds) == 0 {
		return 0, 0, 0
	}
	times := make([]time.Duration, len(r.Rounds))
	for i, s := range r.Rounds {
		times[i] = s.Per
	}
	slices.Sort(times)
	return times[0], times[len(times)/2], times[len(times)-1]
}

// middle returns the median of one figure over all rounds.
func (r *Result) middle(of func(Sample) float64) float64 {
	if len(r.Rounds) == 0 {
		return 0
	}
	all := make([]float64, len(r.Rounds))
	for i, s := range r.Rounds {
		all[i] = of(s)
	}
	slices.SortFunc(all, cmp.Compare)
	return all[len(all)/2]
}

// Machine is what the last results were measured with.
type Machine struct {
	System   string
	Go       string
	Versions []string
}

// Book holds all results. It is kept beside the report, so that one work can be measured again by itself.
type Book struct {
	Machine  Machine
	Works    map[string][]Result
	Measured map[string]string // by work: when, and where
}

func readBook(path string) (*Book, error) {
	b := &Book{Works: map[string][]Result{}, Measured: map[string]string{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return nil, err
	}
	return b, json.Unmarshal(text, b)
}

func (b *Book) write(path string) error {
	text, err := json.MarshalIndent(b, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const example = `package p

func (c *counter) add(n int) error {
	if err := c.check(n); err != nil {
		return err
	}
	if n > 0 && c.open {
		c.sum += n
		c.tell()
	}
	return nil
}
`

func TestMutants(t *testing.T) {
	all, err := mutantsOf("p.go", []byte(example))
	require.NoError(t, err)
	var told []string
	for _, m := range all {
		told = append(told, m.String())
		_, err := mutantsOf("p.go", m.text)
		assert.NoError(t, err, "it can be parsed")
	}
	assert.Equal(t, []string{
		"p.go counter.add: err != nil => err != nil && false",
		"p.go counter.add: err != nil => !(err != nil)",
		"p.go counter.add: err => nil",
		"p.go counter.add: n > 0 && c.open => !(n > 0 && c.open)",
		"p.go counter.add: n > 0 && c.open => n > 0 || c.open",
		"p.go counter.add: n > 0 => n >= 0",
		"p.go counter.add: c.sum += n => (nothing)",
		"p.go counter.add: c.tell() => (nothing)",
	}, told)
}

func TestWhatIsExplainedIsAMutant(t *testing.T) {
	const root = "../.."
	var known strings.Builder
	for _, target := range targets {
		all, err := target.mutants(root)
		require.NoError(t, err)
		assert.Greater(t, len(all), 20)
		for _, m := range all {
			known.WriteString(m.String() + "\n")
		}
	}
	for m, reason := range explained {
		assert.NotEmpty(t, reason, m)
		assert.Contains(t, known.String(), m+"\n")
	}
}

func TestATestThatFailsOnceNoticesNothing(t *testing.T) {
	var asked []string
	answers := []string{"TestA", "", "TestB", "TestB"} // A fails by chance
	by, err := surely(func(args ...string) (string, error) {
		asked = append(asked, strings.Join(args, " "))
		answer := answers[0]
		answers = answers[1:]
		return answer, nil
	})
	require.NoError(t, err)
	assert.Equal(t, "TestB", by)
	assert.Equal(t, []string{"", "-test.run=^TestA$", "-test.skip=^(TestA)$", "-test.run=^TestB$"}, asked)

	answers = []string{"it takes too long"}
	by, err = surely(func(...string) (string, error) { return answers[0], nil })
	require.NoError(t, err)
	assert.Equal(t, "it takes too long", by)
}

func TestOfAPartOfATestNoMoreIsRunAgain(t *testing.T) {
	s := suite{".", []string{"-test.short", "-test.run=^TestA$/^file$"}}
	assert.Equal(t, s.args, s.with("-test.run=^TestA$"))
	assert.Equal(t, append(slices.Clone(s.args), "-test.run=^TestB$"), s.with("-test.run=^TestB$"))
}

func TestAsManyAreTriedAsWereAskedFor(t *testing.T) {
	var all []mutant
	for i := range 20 {
		all = append(all, mutant{file: fmt.Sprintf("%d.go", i)})
	}
	for _, atOnce := range []int{1, 4, 30} {
		var now, most atomic.Int32
		tried := make(chan string, 40)
		s, err := target{name: "t"}.try(t.Context(), all, 9, atOnce, false, func(_ context.Context, m mutant) (string, error) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer now.Add(-1)
			switch tried <- m.file; m.file {
			case "":
				return "", nil // the code as it is
			case "1.go", "7.go":
				return "", errNone
			case "3.go":
				return "", nil
			}
			return "TestA", nil
		})
		require.NoError(t, err)
		assert.Equal(t, [2]int{8, 1}, [2]int{s.noticed, s.unnoticed})
		assert.LessOrEqual(t, most.Load(), int32(atOnce))
		assert.Equal(t, 1+9+2, len(tried), "the first that compile, and nothing more")
	}
}

func TestWhereTheTestsFailAnywayNoMutantCounts(t *testing.T) {
	_, err := target{name: "t"}.try(t.Context(), []mutant{{file: "1.go"}}, 1, 4, false, func(context.Context, mutant) (string, error) {
		return "TestA", nil
	})
	assert.ErrorContains(t, err, "without a mutant: TestA fails")
}

package storetest

import (
	"testing"

	"github.com/turnwise/turnwise/coord/register"
)

func TestMemory(t *testing.T) {
	Run(t, func(testing.TB) *System {
		m := NewMemory()
		return &System{Open: func(testing.TB) register.Store { return m }, Clock: true}
	})
}

func TestMuteMemory(t *testing.T) {
	Run(t, func(testing.TB) *System {
		m := NewMuteMemory()
		return &System{Open: func(testing.TB) register.Store { return m }, Clock: true, Mute: true}
	})
}

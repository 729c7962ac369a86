package storetest

import (
	"testing"

	"github.com/turnwise/turnwise/coord/drivertest"
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

func memorySystem(m *Memory) *System {
	return &System{Open: func(testing.TB) register.Store { return m }, Clock: true, Mute: m.mute}
}

func TestDriverOnMemory(t *testing.T) {
	drivertest.Run(t, func(t testing.TB) *drivertest.Service { return Service(t, memorySystem(NewMemory())) })
}

func TestDriverOnMuteMemory(t *testing.T) {
	drivertest.Run(t, func(t testing.TB) *drivertest.Service { return Service(t, memorySystem(NewMuteMemory())) })
}

func TestRecipesOnMemory(t *testing.T) {
	drivertest.RunRecipes(t, func(t testing.TB) *drivertest.Service { return Service(t, memorySystem(NewMemory())) })
}

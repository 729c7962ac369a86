package storetest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

func TestMain(m *testing.M) {
	Main(openFlock)
	code := m.Run()
	close(planted)
	err := goleak.Find()
	for limit := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(limit); { // a busy machine takes its time
		err = goleak.Find()
	}
	if code == 0 && err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

func TestMemory(t *testing.T) {
	Run(t, func(testing.TB) *System { return memorySystem(memory.NewStore()) })
}

func TestMuteMemory(t *testing.T) {
	Run(t, func(testing.TB) *System { return memorySystem(memory.NewMuteStore()) })
}

// TestMemoryOfOthers has a store in memory pass for one that others may reach.
func TestMemoryOfOthers(t *testing.T) {
	type others struct{ register.Store }
	m := memory.NewStore()
	Run(t, func(testing.TB) *System {
		return &System{Open: func(testing.TB) register.Store { return others{m.Link()} }, Ages: true, Clock: true}
	})
}

func memorySystem(m *memory.Store) *System {
	return &System{Open: func(testing.TB) register.Store { return m.Link() }, Ages: true, Clock: true, Mute: m.Strength().WakeUp == driver.Polled}
}

func TestDriverOnMemory(t *testing.T) {
	drivertest.Run(t, func(t testing.TB) *drivertest.Service { return Service(t, memorySystem(memory.NewStore())) })
}

func TestDriverOnMuteMemory(t *testing.T) {
	drivertest.Run(t, func(t testing.TB) *drivertest.Service { return Service(t, memorySystem(memory.NewMuteStore())) })
}

func TestDriverOnAPresence(t *testing.T) {
	drivertest.Run(t, func(t testing.TB) *drivertest.Service {
		return Service(t, &System{Open: flawedSystem(t, flawless).Open})
	})
}

func TestRecipesOnMemory(t *testing.T) {
	drivertest.RunRecipes(t, func(t testing.TB) *drivertest.Service { return Service(t, memorySystem(memory.NewStore())) })
}

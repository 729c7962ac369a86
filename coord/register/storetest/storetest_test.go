package storetest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
)

func TestMain(m *testing.M) {
	Main(openFlock)
	code := m.Run()
	close(planted)
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

func TestMemory(t *testing.T) {
	Run(t, func(testing.TB) *System { return memorySystem(NewMemory()) })
}

func TestMuteMemory(t *testing.T) {
	Run(t, func(testing.TB) *System { return memorySystem(NewMuteMemory()) })
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

func TestDriverOnAKeeper(t *testing.T) {
	drivertest.Run(t, func(t testing.TB) *drivertest.Service {
		return Service(t, &System{Open: flawedSystem(t, flawless).Open})
	})
}

func TestRecipesOnMemory(t *testing.T) {
	drivertest.RunRecipes(t, func(t testing.TB) *drivertest.Service { return Service(t, memorySystem(NewMemory())) })
}

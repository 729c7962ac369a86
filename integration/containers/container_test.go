package containers

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// image is the one that the environment names, or the one given.
func image(variable, otherwise string) string {
	if name := os.Getenv(variable); name != "" {
		return name
	}
	return otherwise
}

// start runs a container and returns where its port is reached. Without an engine the test is skipped, unless
// TURNWISE_REQUIRE_CONTAINERS=1 says that it must not be.
func start(t testing.TB, port string, request testcontainers.ContainerRequest) string {
	t.Helper()
	engine, err := testcontainers.NewDockerProvider(testcontainers.WithLogger(log.TestLogger(t)))
	if err == nil {
		defer engine.Close()
		err = engine.Health(context.Background())
	}
	if err != nil {
		if os.Getenv("TURNWISE_REQUIRE_CONTAINERS") == "1" {
			t.Fatalf("no container engine: %v", err)
		}
		t.Skipf("no container engine: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // an image may have to be fetched
	defer cancel()
	request.ExposedPorts = []string{port}
	container, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: request,
		Started:          true,
		Logger:           log.TestLogger(t),
	})
	testcontainers.CleanupContainer(t, container)
	if err != nil {
		t.Fatalf("%s does not start: %v", request.Image, err)
	}
	addr, err := container.PortEndpoint(ctx, port, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s at %s", request.Image, addr)
	return addr
}

package containers

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// image returns the image that the environment names, or the one given.
func image(variable, otherwise string) string {
	if name := os.Getenv(variable); name != "" {
		return name
	}
	return otherwise
}

// start runs a container and returns the address of its port. It may have to fetch an image, so a plain go test skips
// it.
func start(t testing.TB, port string, request testcontainers.ContainerRequest) string {
	t.Helper()
	if os.Getenv("TURNWISE_CONTAINERS") != "1" {
		t.Skip("for make test-containers")
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

package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// SaveDisk is KeepDisk outside tests.
func (m *Member) SaveDisk(ctx context.Context) error {
	m.Terminate()
	if err := os.RemoveAll(m.keptData()); err != nil {
		return err
	}
	if err := copyFolder(m.data(), m.keptData()); err != nil {
		return err
	}
	return m.Start(ctx)
}

// RestoreDisk is PutBackDisk outside tests.
func (m *Member) RestoreDisk(ctx context.Context) error {
	m.Kill()
	if _, err := os.Stat(m.keptData()); err != nil {
		return fmt.Errorf("there is nothing to put back: %w", err)
	}
	if err := os.RemoveAll(m.data()); err != nil {
		return err
	}
	if err := copyFolder(m.keptData(), m.data()); err != nil {
		return err
	}
	return m.Start(ctx)
}

func (m *Member) data() string     { return filepath.Join(m.dir, "data") }
func (m *Member) keptData() string { return filepath.Join(m.dir, "kept") }

func copyFolder(from, to string) error {
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

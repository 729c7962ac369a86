//go:build unix

package servers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/servers"
)

func TestAMariaDBThatIsKilledKeepsWhatWasCommitted(t *testing.T) {
	m := servers.MariaDB(t).Member(0)
	require.Equal(t, "mysql://root@"+m.Addr()+"/turnwise", m.URL())
	require.Empty(t, mariadb(t, m, "", "create table t (colour text); insert into t values ('blue')"))
	m.Kill()
	m.Restart(t)
	require.Equal(t, "blue", mariadb(t, m, "", "select colour from t"))
	m.Terminate()
	m.Restart(t)
	require.Equal(t, "blue", mariadb(t, m, "", "select colour from t"))
}

func TestAMariaDBTakesItsSettingsAndAsksForItsPassword(t *testing.T) {
	m := servers.MariaDB(t, servers.Password("it's secret"), servers.Config("max_connections=17")).Member(0)
	require.Contains(t, mariadb(t, m, "", "select 1"), "Access denied")
	require.Equal(t, "17", mariadb(t, m, "it's secret", "select @@max_connections"))
	m.Kill()
	m.Restart(t)
	require.Equal(t, "17", mariadb(t, m, "it's secret", "select @@max_connections"))
}

// mariadb runs the command-line client, and returns what it says.
func mariadb(t *testing.T, m *servers.Member, password, commands string) string {
	t.Helper()
	return run(t, "mariadb/mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", port(m), "-u", "root", "--password="+password,
		"-N", "-B", "-e", commands, "turnwise")
}

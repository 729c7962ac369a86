package backend

import "testing"

// ID tells services apart; passwords and the length of sessions are no part of which one it is.
func TestIDTellsServicesApart(t *testing.T) {
	id := func(url string) string {
		t.Helper()
		s, err := Parse(url)
		if err != nil {
			t.Fatal(err)
		}
		return s.ID()
	}
	for _, same := range [][2]string{
		{"redis://u:one@h?root=a", "redis://u:two@h?root=a&session=9s"},
		{"file:///srv/locks", "file:///srv/locks/"},
		{"file://", "file:///"},
	} {
		if id(same[0]) != id(same[1]) {
			t.Errorf("%q and %q are told apart", same[0], same[1])
		}
	}
	seen := map[string]string{}
	for _, url := range []string{
		"redis://h?root=a", "redis://h?root=b", "redis://u@h?root=a", "redis://h,i?root=a", "redis://h/1?root=a", "file:///a", "file:///b", "file://",
		"nats://h", "nats://u:p@h", "nats://h?root=a", "kube://a", "kube://b", "kube://a?server=https://h", "kube://a?root=r",
	} {
		if other, ok := seen[id(url)]; ok {
			t.Errorf("%q and %q are not told apart", url, other)
		}
		seen[id(url)] = url
	}
}

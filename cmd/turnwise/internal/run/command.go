//go:build linux || darwin

package run

import "encoding/json"

// plain is a Command as package json knows it.
type plain Command

// carried is a Command on its way to another process. File names, arguments and variables are bytes, and need not be UTF-8:
// as text, JSON would put other bytes in their place, and the command would use another file.
type carried struct {
	plain
	Path, Cgroup []byte
	Args, Env    [][]byte
}

// MarshalJSON keeps each byte of what the command is to get.
func (c Command) MarshalJSON() ([]byte, error) {
	return json.Marshal(carried{plain(c), []byte(c.Path), []byte(c.Cgroup), bytesOf(c.Args), bytesOf(c.Env)})
}

// UnmarshalJSON reads what MarshalJSON has written.
func (c *Command) UnmarshalJSON(b []byte) error {
	var got carried
	if err := json.Unmarshal(b, &got); err != nil {
		return err
	}
	*c = Command(got.plain)
	c.Path, c.Cgroup, c.Args, c.Env = string(got.Path), string(got.Cgroup), textsOf(got.Args), textsOf(got.Env)
	return nil
}

func bytesOf(texts []string) (all [][]byte) {
	for _, t := range texts {
		all = append(all, []byte(t))
	}
	return all
}

func textsOf(bytes [][]byte) (all []string) {
	for _, b := range bytes {
		all = append(all, string(b))
	}
	return all
}

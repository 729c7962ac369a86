package kube

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// lease is a Lease object, as far as we read and write it. What stands in a register is in its annotations: the key, the
// version, the value, and the notes of the last swap. A lease without a version is empty: it was there to tell of its end.
type lease struct {
	APIVersion string   `json:"apiVersion,omitempty"`
	Kind       string   `json:"kind,omitempty"`
	Metadata   metadata `json:"metadata"`
	Spec       spec     `json:"spec"`
}

type metadata struct {
	Name            string            `json:"name,omitempty"`
	UID             string            `json:"uid,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Continue        string            `json:"continue,omitempty"` // of a list
	Labels          map[string]string `json:"labels,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
	Created         time.Time         `json:"creationTimestamp,omitzero"`

	// These we write nowhere. Whoever makes an object decides on them.
	Going      time.Time         `json:"deletionTimestamp,omitzero"` // it was deleted, and stays until nobody wants to do something first
	Finalizers []string          `json:"finalizers,omitempty"`       // who wants to
	Owners     []json.RawMessage `json:"ownerReferences,omitempty"`  // it is deleted with these
}

// made returns how long ago an object was made, for register.Item: the server's clock is read in whole seconds, twice. An answer without
// a date says nothing of that.
func (m *metadata) made(now time.Time) time.Duration {
	return max(now.Sub(m.Created)-time.Second, 1)
}

// isTied reports whether an object comes or goes with what is not ours.
func (m *metadata) isTied() bool { return len(m.Finalizers)+len(m.Owners) > 0 }

// lacks names a label or an annotation that is not so in what was stored; "": there is none. What others have added does not matter.
func (m *metadata) lacks(stored *metadata) (what string) {
	for _, of := range []struct {
		kind     string
		sent, is map[string]string
	}{{"label", m.Labels, stored.Labels}, {"annotation", m.Annotations, stored.Annotations}} {
		for name, value := range of.sent {
			if is, has := of.is[name]; !has || is != value {
				return of.kind + " " + name
			}
		}
	}
	return ""
}

// spec has what `kubectl get lease` shows.
type spec struct {
	Holder string `json:"holderIdentity,omitempty"`
}

const (
	group = "coordination.k8s.io/v1"

	keyNote     = "turnwise/key"
	versionNote = "turnwise/version"
	valueNote   = "turnwise/value"
	notesNote   = "turnwise/notes"
	emptyNote   = "turnwise/empty" // a number that never comes again: a write that changes nothing is told to nobody

	rootLabel = "turnwise/root"
	kindLabel = "turnwise/kind" // the key up to its first slash
	tellLabel = "turnwise/tells-"
)

const (
	// maxValue is the largest value. An object's annotations have 256 KiB together, and base64 makes three bytes four.
	maxValue = 150_000

	// maxNotes is how much of the annotations the notes may have.
	maxNotes = 50_000
)

// tooMany stands for notes that are too many for an annotation.
const tooMany = "lost"

// stand is what the API server calls a content: the object that has it, and its version there. A lease that was deleted and made
// again has another uid, and the server makes a lease that was deleted anew if an update does not name that.
type stand struct {
	version  register.Version
	uid      string
	revision string // metadata.resourceVersion
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// nameOf returns the name of a register's lease. What an operator can read of the key stands before the hash of it.
func (s *Store) nameOf(key string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(key) {
		if b.Len() == 60 {
			break
		}
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if !strings.HasSuffix(b.String(), "-") {
			b.WriteByte('-')
		}
	}
	return s.root + "-" + strings.Trim(b.String(), "-") + "-" + hash(key)
}

// kindOf returns the label for keys that begin alike up to a slash, so that they can be listed without all others.
func kindOf(key string) (kind string, has bool) {
	before, _, has := strings.Cut(key, "/")
	if has && !isLabel(before) {
		before = hash(before)
	}
	return before, has
}

// labelOf returns the label of a swap that tells a topic. Those who listen to it watch the leases that have it.
func (s *Store) labelOf(topic string) string { return tellLabel + hash(s.root+"\n"+topic) }

// compose returns the object that a swap writes.
func (s *Store) compose(w *register.Swap, at stand) *lease {
	l := &lease{APIVersion: group, Kind: "Lease", Spec: spec{Holder: w.Whose}, Metadata: metadata{
		Name: s.nameOf(w.Key), UID: at.uid, ResourceVersion: at.revision,
		Labels:      map[string]string{rootLabel: s.root},
		Annotations: map[string]string{keyNote: w.Key},
	}}
	if kind, has := kindOf(w.Key); has {
		l.Metadata.Labels[kindLabel] = kind
	}
	if !w.Next.IsZero() {
		l.Metadata.Annotations[versionNote] = hex.EncodeToString(w.Next[:])
		l.Metadata.Annotations[valueNote] = base64.StdEncoding.EncodeToString(w.Value)
	} else {
		nonce := register.NewVersion()
		l.Metadata.Annotations[emptyNote] = hex.EncodeToString(nonce[:])
	}
	if len(w.Notes) > 0 {
		told := make(map[string][][]byte)
		for _, n := range w.Notes {
			label := s.labelOf(n.Topic)
			l.Metadata.Labels[label] = ""
			told[label] = append(told[label], n.Text)
		}
		l.Metadata.Annotations[notesNote] = encodeNotes(told)
	}
	return l
}

func encodeNotes(told map[string][][]byte) string {
	b, err := json.Marshal(told)
	if err != nil || len(b) > maxNotes {
		return tooMany
	}
	return string(b)
}

// notesFor returns what a lease tells those who watch a label, in order. lost says that there was more.
func (l *lease) notesFor(label string) (texts [][]byte, lost bool) {
	var told map[string][][]byte
	if text := l.Metadata.Annotations[notesNote]; len(text) > maxNotes || json.Unmarshal([]byte(text), &told) != nil {
		return nil, true
	}
	return told[label], false
}

// item takes a register out of its lease.
func (l *lease) item() (it register.Item, at stand, err error) {
	notes := l.Metadata.Annotations
	it.Key = notes[keyNote]
	at = stand{uid: l.Metadata.UID, revision: l.Metadata.ResourceVersion}
	version, err := hex.DecodeString(notes[versionNote])
	if err == nil && len(version) == 0 {
		return it, at, nil // it is empty
	}
	if err == nil && len(version) == len(it.Version) {
		it.Value, err = base64.StdEncoding.DecodeString(notes[valueNote])
		it.Version, it.Age = register.Version(version), -1
		at.version = it.Version
		if err == nil && !it.Version.IsZero() {
			return it, at, nil
		}
	}
	return it, at, storekit.NotOurs("the lease %s is not ours, or of another version of turnwise: name another root with WithRoot", l.Metadata.Name)
}

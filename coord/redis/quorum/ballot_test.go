package quorum

import "testing"

// Whoever fills a server gives it the floor of the others. If one of them has been spoilt, a majority would say so from then on, and
// nobody would have a ballot left.
func TestASpoiltFloorIsNotHandedOn(t *testing.T) {
	honest := ballot{count: 7, round: 3}
	if _, floor := unite([]dump{{floor: honest}, {}}); floor != honest {
		t.Errorf("of an honest floor comes %v", floor)
	}
	_, floor := unite([]dump{{floor: honest}, {floor: ballot{count: ballotEnd - 1}}})
	if floor.less(honest) || !floor.less(ballot{count: ballotEnd / 2}) {
		t.Errorf("of a spoilt floor comes %v", floor)
	}
}

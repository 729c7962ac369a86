package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Whoever owns a table, or may make a trigger on it, can have code of his own run with the rights of everybody who writes
// there, or only reads. So who may do that is looked at, and what is there: what a stranger has left stays when the table
// changes hands.
//
// That we are a member of the owner does not count: others may be as well, and in releases before 16 anybody can make us a
// member of his own role.
const inspectSQL = `WITH trusted AS (
	SELECT r.oid FROM pg_roles r WHERE r.rolsuper OR r.rolname = current_user OR r.rolname::text = $3::text
	UNION SELECT d.datdba FROM pg_database d WHERE d.datname = current_database()
	UNION SELECT r.oid FROM pg_roles r WHERE r.rolname = 'pg_database_owner'
)
SELECT c.oid::bigint, c.relkind::text, c.relpersistence::text, quote_ident(pg_get_userbyid(c.relowner)), quote_ident(current_user),
	c.relowner IN (TABLE trusted), c.relrowsecurity OR EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid),
	coalesce(
		(SELECT format('a trigger, %I', t.tgname) FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal LIMIT 1),
		(SELECT format('a rule, %I', r.rulename) FROM pg_rewrite r WHERE r.ev_class = c.oid LIMIT 1),
		(SELECT format('a constraint, %I', k.conname) FROM pg_constraint k
			WHERE k.confrelid = c.oid OR k.conrelid = c.oid AND k.contype NOT IN ('p', 'n') LIMIT 1),
		(SELECT 'an internal trigger' FROM pg_trigger t WHERE t.tgrelid = c.oid LIMIT 1),
		(SELECT format('an index of its own, %s', i.indexrelid::regclass) FROM pg_index i
			WHERE i.indrelid = c.oid AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL) LIMIT 1),
		(SELECT format('a column, %I, that is computed or of a strange type', a.attname) FROM pg_attribute a
			JOIN pg_type y ON y.oid = a.atttypid LEFT JOIN pg_attrdef e ON e.adrelid = a.attrelid AND e.adnum = a.attnum
			WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND (y.typnamespace <> 'pg_catalog'::regnamespace
				OR coalesce(pg_get_expr(e.adbin, e.adrelid), '') NOT IN ('', 'clock_timestamp()', '"clock_timestamp"()')
				OR a.attname IN ('version', 'reserved_by') AND a.atttypid <> 'bigint'::regtype
				OR a.attname IN ('since', 'reserved_until') AND (a.atttypid <> 'timestamptz'::regtype OR a.atttypmod <> -1)) LIMIT 1),
		(SELECT format('extended statistics, %I', s.stxname) FROM pg_statistic_ext s WHERE s.stxrelid = c.oid LIMIT 1),
		(SELECT 'a relative by inheritance' FROM pg_inherits h WHERE c.oid IN (h.inhrelid, h.inhparent) LIMIT 1),
		''),
	coalesce((SELECT CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END FROM aclexplode(c.relacl) x
		WHERE x.privilege_type = 'TRIGGER' AND x.grantee <> c.relowner AND x.grantee NOT IN (TABLE trusted) LIMIT 1), ''),
	n.nspowner NOT IN (TABLE trusted) OR EXISTS (SELECT FROM aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) x
		WHERE x.privilege_type = 'CREATE' AND x.grantee NOT IN (TABLE trusted))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1::name AND c.relname = $2::name`

// inspection is what we have found out about the table.
type inspection struct {
	oid     int64
	exposed bool // others may create in its schema, and so make another table of this name when it is dropped
}

// inspect returns nil if there is no table.
func (t table) inspect(ctx context.Context, c *pgx.Conn, owner string) (*inspection, error) {
	var at *inspection
	var kind, persistence, owns, we, has, triggers string
	var trusted, hidden bool
	_, err := guard{}.run(ctx, c, inspectSQL, []any{t[0], t[1], owner}, func(r pgx.Rows) error {
		at = new(inspection)
		return r.Scan(&at.oid, &kind, &persistence, &owns, &we, &trusted, &hidden, &has, &triggers, &at.exposed)
	})
	switch {
	case err != nil:
		return nil, t.explain(err)
	case at == nil:
		return nil, nil
	case kind != "r":
		return nil, storekit.Denied("%s is no plain table: name another one with WithTable", t.quoted())
	case !trusted:
		return nil, storekit.Denied("the table %s belongs to %s, who could have code run there with the rights of %s: "+
			"drop it, or give WithOwner if that role is to be trusted", t.quoted(), owns, we)
	case persistence != "p":
		return nil, storekit.Denied("the table %s is UNLOGGED or temporary and would be empty after a crash: ALTER TABLE %[1]s SET LOGGED", t.quoted())
	case hidden:
		return nil, storekit.Denied("row security hides rows of %s, or runs code of its own: ALTER TABLE %[1]s DISABLE ROW LEVEL SECURITY, "+
			"and drop its policies", t.quoted())
	case has != "":
		return nil, storekit.Denied("the table %s has %s, which may run somebody's code with the rights of %s: drop that", t.quoted(), has, we)
	case triggers != "":
		return nil, storekit.Denied("%s may make triggers on %s, which would run with the rights of %s: REVOKE TRIGGER ON %[2]s FROM %[1]s",
			triggers, t.quoted(), we)
	}
	return at, nil
}

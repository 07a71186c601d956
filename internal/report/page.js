// The script of report.html: it shows the cases as a grid that filters and sorts, and the page of each cell. All text goes
// into the page as text nodes; nothing is parsed as markup, nothing is fetched.
'use strict';
(() => {
  const glyphs = { passed: '●', failed: '○', errored: '✕', skipped: '–', pending: '·' };
  const looks = { passed: 'pass', failed: 'fail' };
  const rowsAtOnce = 60;
  const shows = ['passed', 'cost', 'time', 'lines changed'];

  // make builds an element. Names that begin with "on" are listeners, "text" is its text, all others are attributes.
  function make(tag, attributes, ...children) {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === false) continue;
      if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
      else if (name === 'text') e.textContent = value;
      else e.setAttribute(name, value === true ? '' : value);
    }
    e.append(...children.filter((c) => c !== null && c !== undefined && c !== ''));
    return e;
  }

  // block reads a block of data of this page.
  async function block(id) {
    const script = document.getElementById(id);
    if (!('packed' in script.dataset)) return JSON.parse(script.textContent);
    const bytes = Uint8Array.from(atob(script.textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return JSON.parse(await new Response(stream).text());
  }

  const shelves = new Map();
  async function pageOf(cell) {
    if (cell.shelf < 0) return null;
    if (!shelves.has(cell.shelf)) {
      if (shelves.size > 8) shelves.clear(); // so that a long look does not keep all of them
      shelves.set(cell.shelf, await block('cells-' + cell.shelf));
    }
    return shelves.get(cell.shelf)[cell.place];
  }

  const short = (v) => (v >= 100 ? v.toFixed(0) : String(Number(v.toPrecision(3))));
  const usd = (v) => '$' + v.toFixed(v > 0 && v < 0.1 ? 4 : 2);

  function start(grid) {
    const phases = grid.phases;
    const cells = grid.cells.map(([c, a, trial, phase, state, shelf, place], index) => {
      const [status, ...why] = grid.states[state].split(' ');
      return { index, c, a, trial, phase: phases[phase], status, why: why.join(' '), shelf, place };
    });
    const rows = grid.cases.map((name, i) => ({ name, i, changed: grid.changed[i], numbers: grid.numbers[i], cells: grid.arms.map(() => []) }));
    for (const cell of cells) rows[cell.c].cells[cell.a].push(cell);

    const want = { text: '', status: '', why: '', arm: '', changed: '', show: 0, sort: 'case', down: false };
    let found = rows;
    let shown = 0;

    // What a filter asks of a cell, and of a case.
    const fits = (cell) => (!want.status || cell.status === want.status) && (!want.why || cell.why === want.why) && (want.arm === '' || cell.a === Number(want.arm));
    const changes = (row) => row.changed.filter((c, a) => c && (want.arm === '' || a === Number(want.arm)));
    function matches(row) {
      if (want.text && !row.name.toLowerCase().includes(want.text)) return false;
      const moved = changes(row);
      if (want.changed === 'same' ? moved.length : want.changed && !moved.includes(want.changed)) return false;
      return !(want.status || want.why || want.arm !== '') || row.cells.some((list) => list.some(fits));
    }
    function value(row, a) {
      const n = row.numbers[a];
      if (want.show === 0) return n[1] ? n[0] / n[1] : null;
      return n[want.show + 1];
    }
    const rankOf = { worse: 0, better: 1 };
    function order(x, y) {
      let d = 0;
      if (want.sort === 'changed') d = Math.min(2, ...changes(x).map((c) => rankOf[c])) - Math.min(2, ...changes(y).map((c) => rankOf[c]));
      else if (want.sort !== 'case') {
        const p = value(x, want.sort);
        const q = value(y, want.sort);
        if (p === null || q === null) return (p === null) - (q === null) || x.i - y.i; // what is not known stands last
        d = p - q;
      } else d = x.i - y.i;
      return (want.down ? -d : d) || x.i - y.i;
    }

    function figure(row, a) {
      const [passed, scored] = row.numbers[a];
      if (want.show === 0) return scored ? `${passed}/${scored}` : 'not scored';
      const v = row.numbers[a][want.show + 1];
      if (v === null) return 'not known';
      return [usd, (s) => short(s) + ' s', short][want.show - 1](v);
    }

    function trial(cell) {
      const arm = grid.arms[cell.a];
      const fresh = cell.phase === 'screen' ? '' : cell.phase + ' ';
      const name = `${cell.status}${cell.why ? ', ' + cell.why : ''}: ${grid.cases[cell.c]}, ${arm.name}, ${fresh}trial ${cell.trial}`;
      return make('button', {
        type: 'button', class: `trial ${looks[cell.status] || 'other'}${fits(cell) ? '' : ' out'}`, tabindex: -1, title: name, 'aria-label': name,
        'data-cell': cell.index, text: (fresh ? '┊' : '') + (glyphs[cell.status] || '·'), onclick: () => go(cell),
      });
    }

    const arms = () => grid.arms.map((arm, a) => a).filter((a) => want.arm === '' || a === Number(want.arm));

    function rowOf(row) {
      const moved = changes(row);
      const mark = moved.includes('worse') ? ['worse', '▼'] : moved.includes('better') ? ['better', '▲'] : null;
      return make('tr', {},
        make('th', { scope: 'row', class: 'name', text: row.name }),
        make('td', {}, mark ? make('span', { class: mark[0], text: `${mark[1]} ${mark[0]}` }) : make('span', { class: 'soft', text: 'same' })),
        ...arms().map((a) => make('td', {}, ...row.cells[a].map(trial), make('span', { class: 'value', text: figure(row, a) }))));
    }

    const body = make('tbody');
    const head = make('tr');
    const table = make('table', { class: 'grid', 'aria-labelledby': 'grid-count' }, make('thead', {}, head), body);
    const more = make('button', { type: 'button', text: 'Show more cases', onclick: () => grow(rowsAtOnce) });
    const count = make('p', { class: 'count', id: 'grid-count', role: 'status' });

    function heading(key, text, title) {
      const on = want.sort === key;
      const arrow = on ? (want.down ? ' ↓' : ' ↑') : '';
      return make('th', { scope: 'col', 'aria-sort': on ? (want.down ? 'descending' : 'ascending') : false },
        make('button', { type: 'button', title, 'data-sort': key, text: text + arrow, onclick: () => {
          want.down = on ? !want.down : false;
          want.sort = key;
          draw();
          head.querySelector(`[data-sort="${key}"]`).focus();
        } }));
    }

    function draw() {
      if (typeof want.sort === 'number' && want.arm !== '' && want.sort !== Number(want.arm)) want.sort = 'case';
      found = rows.filter(matches).sort(order);
      shown = 0;
      body.replaceChildren();
      head.replaceChildren(heading('case', 'case', 'sort by name'), heading('changed', 'change', 'sort by change'),
        ...arms().map((a) => heading(a, grid.arms[a].name + (grid.arms[a].baseline ? ' (baseline)' : ''), 'sort by ' + shows[want.show])));
      grow(rowsAtOnce);
      const first = body.querySelector('.trial');
      if (first) first.tabIndex = 0;
    }

    function grow(n) {
      const next = found.slice(shown, shown + n);
      body.append(...next.map(rowOf));
      shown += next.length;
      more.hidden = shown === found.length;
      count.textContent = `${found.length} of ${rows.length} cases fit` + (shown < found.length ? `, ${shown} are drawn` : '') + `. ${grid.cut}`;
    }

    // The arrow keys move among trials, so that the grid is one stop of the tab key.
    body.addEventListener('keydown', (event) => {
      const at = event.target.closest('.trial');
      if (!at) return;
      const move = (to) => {
        if (!to) return;
        event.preventDefault();
        body.querySelectorAll('.trial[tabindex="0"]').forEach((b) => { b.tabIndex = -1; });
        to.tabIndex = 0;
        to.focus();
      };
      const inRow = (row) => [...row.querySelectorAll('.trial')];
      const row = at.closest('tr');
      const all = inRow(row);
      const i = all.indexOf(at);
      const besides = (next) => {
        for (let r = next(row); r; r = next(r)) {
          const list = inRow(r);
          if (list.length) return list[Math.min(i, list.length - 1)];
        }
        return null;
      };
      switch (event.key) {
        case 'ArrowRight': move(all[i + 1]); break;
        case 'ArrowLeft': move(all[i - 1]); break;
        case 'Home': move(all[0]); break;
        case 'End': move(all[all.length - 1]); break;
        case 'ArrowDown':
          if (!row.nextElementSibling) grow(rowsAtOnce);
          move(besides((r) => r.nextElementSibling));
          break;
        case 'ArrowUp': move(besides((r) => r.previousElementSibling)); break;
      }
    });

    const unique = (list) => [...new Set(list)].sort();
    function choice(label, options, change) {
      return make('label', { text: label + ' ' }, make('select', { 'data-filter': label, onchange: (e) => { change(e.target.value); draw(); } },
        ...options.map(([v, text]) => make('option', { value: v, text }))));
    }
    const whys = unique(cells.map((c) => c.why).filter(Boolean));
    const filters = make('div', { class: 'filters', role: 'search', 'aria-label': 'filter the cases' },
      make('label', { text: 'case ' }, make('input', { type: 'search', 'data-filter': 'case', oninput: (e) => { want.text = e.target.value.toLowerCase(); draw(); } })),
      choice('status', [['', 'any'], ...unique(cells.map((c) => c.status)).map((s) => [s, s])], (v) => { want.status = v; }),
      whys.length ? choice('class', [['', 'any'], ...whys.map((w) => [w, w])], (v) => { want.why = v; }) : null,
      choice('arm', [['', 'all'], ...grid.arms.map((a, i) => [i, a.name])], (v) => { want.arm = v; }),
      choice('change', [['', 'any'], ['worse', '▼ worse'], ['better', '▲ better'], ['same', 'same']], (v) => { want.changed = v; }),
      choice('beside the trials', shows.map((s, i) => [i, s]), (v) => { want.show = Number(v); }));

    document.getElementById('grid').append(filters,
      make('p', { class: 'soft', text: 'Arrow keys move among the trials, Enter opens one. The headings sort.' }), count,
      make('div', { class: 'scroll' }, table), more);
    draw();
    new IntersectionObserver((seen) => { if (seen.some((s) => s.isIntersecting) && shown < found.length) grow(rowsAtOnce); }).observe(more);
    // On paper nothing can be unfolded.
    window.addEventListener('beforeprint', () => {
      if (!dialog.open) grow(2000);
      for (const d of dialog.querySelectorAll('details:not([open])')) {
        d.open = true;
        d.dataset.printed = '';
      }
    });
    window.addEventListener('afterprint', () => {
      for (const d of dialog.querySelectorAll('[data-printed]')) {
        d.open = false;
        delete d.dataset.printed;
      }
    });

    // The page of a cell. Its address is in the fragment, so that the back button closes it and a link opens it.
    const dialog = document.getElementById('cell');
    const addressOf = (cell) => '#cell=' + [grid.cases[cell.c], ...grid.arms[cell.a].parts, cell.phase, cell.trial].map(encodeURIComponent).join('/');
    const addresses = new Map(cells.map((c) => [addressOf(c), c]));
    let ours = false; // the page before this address is of this report
    function go(cell) {
      ours = true;
      location.hash = addressOf(cell);
    }
    function leave() {
      if (ours) history.back();
      else {
        history.replaceState(null, '', location.pathname + location.search);
        follow();
      }
      ours = false;
    }
    function step(cell, by) {
      const list = found.flatMap((row) => arms().flatMap((a) => row.cells[a].filter(fits)));
      const next = list[list.indexOf(cell) + by];
      if (!next) return;
      history.replaceState(null, '', addressOf(next));
      follow();
    }
    async function follow() {
      const cell = addresses.get(location.hash);
      document.body.classList.toggle('reading', Boolean(cell));
      if (!cell) {
        if (dialog.open) dialog.close();
        return;
      }
      const page = await pageOf(cell);
      if (addresses.get(location.hash) !== cell) return; // the reader has gone on
      dialog.replaceChildren(barOf(cell), page ? pageView(cell, page) : noPage(cell));
      if (!dialog.open) dialog.showModal();
      dialog.scrollTop = 0;
      dialog.querySelector('[data-close]').focus();
    }
    dialog.addEventListener('cancel', (event) => { event.preventDefault(); leave(); });
    dialog.addEventListener('close', () => { // the focus goes back to where the reader came from
      const last = body.querySelector('.trial[tabindex="0"]');
      if (last && document.activeElement === document.body) last.focus();
    });
    body.addEventListener('click', (event) => {
      const at = event.target.closest('.trial');
      if (!at) return;
      body.querySelectorAll('.trial[tabindex="0"]').forEach((b) => { b.tabIndex = -1; });
      at.tabIndex = 0;
    });
    window.addEventListener('hashchange', follow);

    function barOf(cell) {
      const fresh = cell.phase === 'screen' ? '' : cell.phase + ' ';
      return make('div', { class: 'bar' },
        make('button', { type: 'button', 'data-close': true, text: '← Back', onclick: leave }),
        make('h2', { id: 'cell-name' }, make('span', { class: looks[cell.status] || 'other', text: `${glyphs[cell.status] || '·'} ${cell.status}` }),
          ` · ${grid.cases[cell.c]} · ${grid.arms[cell.a].name} · ${fresh}trial ${cell.trial}`),
        make('button', { type: 'button', text: 'Previous', onclick: () => step(cell, -1) }),
        make('button', { type: 'button', text: 'Next', onclick: () => step(cell, 1) }));
    }
    function noPage(cell) {
      const id = [grid.cases[cell.c], ...grid.arms[cell.a].parts, cell.trial].join('/');
      return make('div', { class: 'page' }, make('p', { text: grid.cut }), make('p', { text: 'To read it in a terminal: ' }, make('code', { text: `assay trace RESULTS ${id}` })));
    }
    follow();
  }

  // A part of a cell's page is there when it has something to show.
  function part(title, ...content) {
    const kept = content.filter(Boolean);
    return kept.length ? [make('h3', { text: title }), ...kept] : [];
  }
  const list = (lines) => (lines && lines.length ? make('ul', {}, ...lines.map((l) => make('li', { text: l }))) : null);

  function pageView(cell, page) {
    return make('div', { class: 'page' },
      make('dl', {}, ...page.facts.flatMap(([name, text]) => [make('dt', { text: name }), make('dd', { text })])),
      ...part('Left out of this page', list(page.cut)),
      ...part('Assertions', ...(page.checks || []).map(check)),
      ...part('Conversation', ...turns(page.talk || [], 4)),
      ...part('Change', list(page.scope), page.patch ? patch(page.patch) : null),
      ...part('Logs', ...(page.logs || []).map((l) => fold(l.name, make('pre', { text: l.text })))),
      ...part('Attempts before', list(page.earlier)),
      ...part('Findings, which changed no number', list(page.findings)),
      page.folder ? make('p', { class: 'soft', text: 'All of it is in the folder of the results: ' }, make('code', { text: page.folder })) : '');
  }

  // A title is text, or a list of elements and texts.
  const fold = (title, ...content) => make('details', {}, make('summary', {}, ...[title].flat()), ...content);

  function check(c) {
    const look = { held: 'pass', 'did not hold': 'fail' }[c.held] || 'other';
    return make('details', { class: 'check', open: c.held !== 'held' },
      make('summary', {}, make('span', { class: look, text: c.held }), ' · ', make('code', { text: c.id }), `${c.gate ? ' (gate)' : ''}: ${c.text}`),
      c.evidence ? make('pre', { text: c.evidence }) : null, c.log ? fold('log', make('pre', { text: c.log })) : null);
  }

  const at = (seconds) => `${seconds.toFixed(1)} s`;
  const times = (t) => (at(t.at) === at(t.end) ? at(t.at) : `${t.at.toFixed(1)} to ${at(t.end)}`);
  const pre = (text) => (text ? make('pre', { text }) : null);

  // turns are those of a conversation: the agent's own, or that of a sub-agent within a call. The first thing that a user says
  // is the prompt.
  function turns(all, level) {
    const prompt = all.find((t) => t.who === 'user');
    return all.map((t) => turn(t, level, t === prompt));
  }
  function turn(t, level, isPrompt) {
    const name = {
      user: [t.sub ? 'told to the sub-agent' : 'user', isPrompt && !t.sub ? ', the prompt' : ''].join(''),
      agent: `${t.sub ? 'sub-agent' : 'agent'} ${t.number || ''}`.trim(),
    }[t.who];
    const usage = t.said.filter((s) => s.who === 'usage');
    return make('section', { class: `turn ${t.who}` },
      name ? make(`h${Math.min(level, 6)}`, {}, make('b', { text: name }), ` · ${times(t)}${t.used ? ' · ' + t.used : ''}`) : null,
      ...t.said.filter((s) => s.who !== 'usage').map((s) => said(s, t, level + 1)),
      usage.length ? make('div', { class: 'said note' }, fold(usage.length > 1 ? `usage, told ${usage.length} times` : 'usage, as it was told',
        list(usage.map((s) => `${at(s.at)} · ${s.text}`)))) : null);
  }

  function said(s, t, level) {
    const box = (...content) => make('div', { class: `said ${s.who}` }, ...content);
    const text = s.text ? make('div', { class: 'text', text: s.text }) : null;
    const line = (name) => make('div', { class: 'who', text: [name, at(s.at), s.mark].filter(Boolean).join(' · ') });
    switch (s.who) {
      case 'text':
        return box(t.who === 'machinery' ? line('machinery') : s.mark || s.at - t.at >= 0.05 ? line('') : null, text);
      case 'thinking':
        return box(fold(['thinking', at(s.at), s.mark].filter(Boolean).join(' · '), text));
      case 'tool':
        return box(tool(s, text, level), ...(s.asks || []).map(asked));
      case 'ask':
        return box(s.mark ? line('') : null, ...s.asks.map(asked));
      case 'note':
        return box([at(s.at), s.mark, s.title, s.text].filter(Boolean).join(' · '));
    }
    return box(line(s.who), text);
  }
  // A call is folded: what it was called with, what came back, and what the sub-agent did that it started.
  function tool(s, text, level) {
    const well = /^(ok|ended)/.test(s.end || '');
    const talk = s.turns || [];
    return fold([make('code', { text: s.title || 'tool' }), ' · ', make('span', { class: well ? 'soft' : s.end ? 'fail' : 'other', text: s.end || 'no result was seen' }),
      make('span', { class: 'soft', text: [talk.length ? ` · ${talk.length} turns of a sub-agent` : '', ` · ${at(s.at)}`, s.mark ? ` · ${s.mark}` : ''].join('') })],
      text, pre(s.input), talk.length ? make('div', { class: 'nested' }, ...turns(talk, level)) : null, pre(s.output));
  }
  function asked(a) {
    const denied = /^(denied|cancelled)/.test(a.end || '');
    return make('div', { class: 'asked' },
      make('div', { class: 'who' }, a.what === 'question' ? 'question' : 'asks for permission', ` · ${at(a.at)}`, a.title ? ' · ' : '', a.title ? make('code', { text: a.title }) : ''),
      pre(a.input), make('div', { class: denied ? 'fail' : '', text: '→ ' + (a.end || 'no reply was seen') }), pre(a.output));
  }

  // Enough of languages to colour a patch: how comments begin and end, by the ending of a file's name. It is no grammar: a patch
  // shows parts of files, and what began before a part is not known.
  const slash = { line: '//', open: '/\\*', close: '*/' };
  const hash = { line: '(?<!\\S)#' };
  const families = [
    [/\.(c|h|cc|cpp|cxx|hpp|cs|dart|fs|go|gradle|groovy|java|[cm]?js|jsx|json[5c]?|kts?|less|m|php|proto|rs|scala|scss|swift|[cm]?ts|tsx|zig)$/, slash],
    [/\.(awk|bash|cfg|cmake|conf|dockerfile|exs?|hcl|ini|jl|mk|nix|p[lm]|ps1|py|pyi|r|rb|sh|tf|toml|ya?ml|zsh)$|(^|\/)(dockerfile|gemfile|makefile|rakefile)[^/]*$/, hash],
    [/\.(elm|hs|lua|sql)$/, { line: '--' }],
    [/\.css$/, { open: '/\\*', close: '*/' }],
    [/\.(html?|svg|vue|xml)$/, { open: '<!--', close: '-->' }],
  ];
  const words = new Set(('abstract and as async await begin bool boolean break case catch chan char class const continue def default defer del do done double elif else elsif ' +
    'end enum esac except export extends extern false fi final finally float fn for foreach from func function go goto if implements import in inline int interface is ' +
    'lambda let local long loop match mod module mut namespace new nil None not null or package pass private protected pub public raise range readonly rescue return ' +
    'select self short sizeof static string struct super switch template then this throw throws trait true True False try type typedef typeof undefined union unless ' +
    'unsafe unsigned until use using val var virtual void volatile when where while with yield').split(' '));
  function languageOf(name) {
    const family = families.find(([ending]) => ending.test(name.toLowerCase()));
    if (!family) return null;
    const { line, open, close } = family[1];
    const parts = [line && `(?<line>${line}.*)`, open && `(?<open>${open})`, String.raw`(?<text>"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'|${'`'}[^${'`'}]*${'`'}?)`,
      String.raw`(?<number>\b\d[\w.]*)`, String.raw`(?<word>[A-Za-z_]\w*)`];
    return { close, token: new RegExp(parts.filter(Boolean).join('|'), 'g') };
  }

  // colour cuts a line of code into texts and elements. side.comment tells whether a comment of several lines goes on.
  function colour(code, language, side) {
    if (!language || code.length > 1000) return [code];
    const out = [];
    let done = 0;
    const until = (end, look) => {
      if (end > done) out.push(look ? make('span', { class: look, text: code.slice(done, end) }) : code.slice(done, end));
      done = Math.max(done, end);
    };
    const endOfComment = (start) => {
      const end = code.indexOf(language.close, start);
      side.comment = end < 0;
      until(end < 0 ? code.length : end + language.close.length, 'tc');
    };
    if (side.comment) endOfComment(0);
    language.token.lastIndex = done;
    for (let found = language.token.exec(code); found; found = language.token.exec(code)) {
      const { line, open, text, number, word } = found.groups;
      const look = line || open ? 'tc' : text ? 'ts' : number ? 'tn' : words.has(word) ? 'tk' : '';
      if (!look) continue;
      until(found.index);
      if (open) endOfComment(found.index + open.length);
      else until(found.index + found[0].length, look);
      language.token.lastIndex = done;
    }
    until(code.length);
    return out;
  }

  // patch shows a patch line by line. Which lines are code is known from the head of each hunk.
  function patch(text) {
    const counts = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/;
    let before = 0; // lines of the hunk that are still to come, on each side
    let after = 0;
    let language = null;
    let sides = {};
    const rows = text.split('\n').map((line) => {
      const sign = line[0] || ' ';
      if ((before > 0 || after > 0) && ' +-'.includes(sign)) {
        if (sign !== '+') before--;
        if (sign !== '-') after--;
        const parts = colour(line.slice(1), language, sign === '-' ? sides.old : sides.new);
        if (sign === ' ') sides.old = { ...sides.new };
        return make('span', { class: { '+': 'add', '-': 'del' }[sign] }, line.slice(0, 1), ...parts);
      }
      if (sign === '\\') return make('span', { class: 'soft', text: line });
      const hunk = counts.exec(line);
      if (hunk) {
        [before, after] = [Number(hunk[1] ?? 1), Number(hunk[2] ?? 1)];
        sides = { old: {}, new: {} };
        return make('span', { class: 'hunk', text: line });
      }
      const name = /^(?:\+\+\+|---) "?[ab]\/(.*?)"?\t?$/.exec(line);
      if (name) language = languageOf(name[1]);
      return make('span', { class: 'file', text: line });
    });
    return make('pre', { class: 'patch', tabindex: 0 }, ...rows);
  }

  // What scrolls sideways can be reached by the keyboard.
  function reach() {
    for (const box of document.querySelectorAll('.scroll')) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute('tabindex');
    }
  }
  window.addEventListener('resize', reach);

  block('grid-data').then(start).then(reach);
})();

'use strict';

const test = require('node:test');
const assert = require('node:assert');
const { weeklyReport } = require('../src/report');
const { weekChart } = require('../src/chart');
const { sheetRows } = require('../src/sheet');
const { mailSubject } = require('../src/mail');

const week = ['2024-03-04', '2024-03-05', '2024-03-06', '2024-03-07', '2024-03-08', '2024-03-09', '2024-03-10'];
const zones = ['UTC', 'America/Los_Angeles', 'Europe/Berlin', 'Asia/Kolkata', 'Asia/Tokyo', 'Pacific/Kiritimati'];

// noon returns the instant of noon on a local day of March 2024, in the zone of the moment.
const noon = (dayOfMonth) => new Date(2024, 2, dayOfMonth, 12).toISOString();

function inEveryZone(name, check) {
  test(name, () => {
    for (const zone of zones) {
      process.env.TZ = zone;
      check(zone);
    }
  });
}

inEveryZone('the report names the days of the reader', (zone) => {
  const rows = weeklyReport([{ at: noon(4), minutes: 60 }, { at: noon(10), minutes: 15 }], noon(6));
  assert.deepStrictEqual(rows.map((row) => row.day), week, zone);
  assert.deepStrictEqual(rows.map((row) => row.minutes), [60, 0, 0, 0, 0, 0, 15], zone);
});

inEveryZone('the chart names the days of the reader', (zone) => {
  const lines = weekChart([{ at: noon(5), minutes: 60 }], noon(6));
  assert.deepStrictEqual(lines.map((line) => line.slice(0, 10)), week, zone);
  assert.strictEqual(lines[1], '2024-03-05 ##', zone);
});

inEveryZone('the sheet names the days of the reader', (zone) => {
  const rows = sheetRows([{ at: noon(6), minutes: 20, note: 'b' }, { at: noon(4), minutes: 10 }]);
  assert.deepStrictEqual(rows, [['2024-03-04', 10, ''], ['2024-03-06', 20, 'b']], zone);
});

inEveryZone('the subject names the days of the reader', (zone) => {
  assert.strictEqual(mailSubject(noon(6)), 'Hours from 2024-03-04 to 2024-03-10', zone);
});

inEveryZone('an entry at five past midnight belongs to the new day', (zone) => {
  const at = new Date(2024, 2, 5, 0, 5).toISOString();
  assert.strictEqual(sheetRows([{ at, minutes: 5 }])[0][0], '2024-03-05', zone);
});

// The two tabs. Each part of the page looks after itself.
import { startDigits } from './digits.js';
import { startPlayground } from './playground.js';

const tabs = [...document.querySelectorAll('[role="tab"]')];
const shown = {};

function select(tab, focus = false) {
  for (const each of tabs) {
    const mine = each === tab;
    each.setAttribute('aria-selected', mine);
    each.tabIndex = mine ? 0 : -1;
    document.getElementById(each.getAttribute('aria-controls')).hidden = !mine;
  }
  history.replaceState(null, '', tab.dataset.hash); // not the section's id, to which the browser would scroll
  if (focus) tab.focus();
  shown[tab.getAttribute('aria-controls')]();
}

shown.digits = startDigits();
shown.playground = startPlayground();
for (const tab of tabs) {
  tab.addEventListener('click', () => select(tab));
  tab.addEventListener('keydown', (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by) select(tabs[(tabs.indexOf(tab) + by + tabs.length) % tabs.length], true);
  });
}
select(tabs.find((tab) => tab.dataset.hash === location.hash) ?? tabs[0]);

(function () {
  'use strict';
  var NS = 'http://www.w3.org/2000/svg';
  var charts = [];

  function element(name, attributes, parent) {
    var made = document.createElementNS(NS, name);
    Object.keys(attributes).forEach(function (key) { made.setAttribute(key, attributes[key]); });
    if (parent) { parent.appendChild(made); }
    return made;
  }

  function numbers(text) { return text.trim().split(/\s+/).map(Number); }

  function shown(value, span) {
    if (value === 0) { return '0'; }
    var size = Math.max(Math.abs(value), 1e-300);
    var digits = Math.max(3, Math.min(7, Math.ceil(Math.log10(size / Math.max(span, 1e-300))) + 4));
    return String(Number(value.toPrecision(digits)));
  }

  function roundStep(length) {
    var power = Math.pow(10, Math.floor(Math.log10(length)));
    var part = length / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
  }

  // An axis: [low, high] is what its ends stand for now, `whole` what they stood for at first.
  function Axis(text) {
    var parts = text.trim().split(/\s+/);
    this.whole = [Number(parts[0]), Number(parts[1])];
    this.low = this.whole[0];
    this.high = this.whole[1];
    this.isLog = parts[2] === 'log';
  }
  Axis.prototype.value = function (inner) { return this.isLog ? Math.pow(10, inner) : inner; };
  Axis.prototype.ticks = function (n) {
    var span = this.high - this.low, ticks = [], at;
    if (this.isLog && span >= 1.5) {
      var stride = Math.max(1, Math.ceil(span / n));
      for (at = Math.ceil(this.low - 1e-9); at <= this.high + 1e-9; at += stride) {
        ticks.push([at, at >= -2 && at <= 4 ? String(Math.pow(10, at)) : '1e' + at]);
      }
      return ticks;
    }
    var low = this.value(this.low), high = this.value(this.high), step = roundStep((high - low) / n);
    for (at = Math.ceil(low / step - 1e-9); at * step <= high + 1e-9 * step; at += 1) {
      var value = at * step;
      ticks.push([this.isLog ? Math.log10(value) : value, shown(Math.abs(value) < 1e-9 * step ? 0 : value, step)]);
    }
    return ticks;
  };

  function Chart(svg) {
    var frame = numbers(svg.getAttribute('data-frame'));
    this.svg = svg;
    this.left = frame[0]; this.top = frame[1]; this.right = frame[2]; this.bottom = frame[3];
    this.x = new Axis(svg.getAttribute('data-x'));
    this.y = new Axis(svg.getAttribute('data-y'));
    this.link = svg.getAttribute('data-link');
    // The unit of a time in seconds, and its name.
    var unit = (svg.getAttribute('data-unit') || '1 ').split(' ');
    this.unit = Number(unit[0]); this.unitName = unit[1];
    this.zoom = svg.querySelector('.zoom');
    this.points = {};
    this.listen();
  }

  // Points of a curve as they were drawn, read once from its path.
  Chart.prototype.curve = function (group) {
    var at = group.getAttribute('data-of');
    if (!this.points[at]) {
      var path = group.querySelector('path.line, path.dots');
      var points = [], pattern = /[ML](-?[\d.]+) (-?[\d.]+)/g, match;
      while (path && (match = pattern.exec(path.getAttribute('d')))) { points.push([Number(match[1]), Number(match[2])]); }
      this.points[at] = points;
    }
    return this.points[at];
  };

  Chart.prototype.innerX = function (px) { return this.x.low + (px - this.left) / (this.right - this.left) * (this.x.high - this.x.low); };
  Chart.prototype.innerY = function (py) { return this.y.low + (this.bottom - py) / (this.bottom - this.top) * (this.y.high - this.y.low); };
  Chart.prototype.px = function (inner) { return this.left + (inner - this.x.low) / (this.x.high - this.x.low) * (this.right - this.left); };
  Chart.prototype.py = function (inner) { return this.bottom - (inner - this.y.low) / (this.y.high - this.y.low) * (this.bottom - this.top); };

  // From where a point was drawn at first to where it is now.
  Chart.prototype.matrix = function () {
    var a = (this.x.whole[1] - this.x.whole[0]) / (this.x.high - this.x.low);
    var d = (this.y.whole[1] - this.y.whole[0]) / (this.y.high - this.y.low);
    return [a, d, this.px(this.x.whole[0]) - a * this.left, this.py(this.y.whole[0]) - d * this.bottom];
  };

  Chart.prototype.draw = function () {
    var m = this.matrix(), self = this;
    this.zoom.setAttribute('transform', 'matrix(' + m[0] + ' 0 0 ' + m[1] + ' ' + m[2] + ' ' + m[3] + ')');
    var group = this.svg.querySelector('.x-ticks');
    group.textContent = '';
    this.x.ticks(7).forEach(function (tick) {
      var at = self.px(tick[0]);
      element('line', { 'class': 'axis', x1: at, x2: at, y1: self.bottom, y2: self.bottom + 5 }, group);
      element('text', { x: at, y: self.bottom + 19, 'text-anchor': at > self.right - 10 ? 'end' : 'middle' }, group).textContent = tick[1];
    });
    group = this.svg.querySelector('.y-ticks');
    group.textContent = '';
    this.y.ticks(6).forEach(function (tick) {
      var at = self.py(tick[0]);
      element('line', { 'class': 'grid', x1: self.left, x2: self.right, y1: at, y2: at }, group);
      element('text', { x: self.left - 8, y: at + 4, 'text-anchor': 'end' }, group).textContent = tick[1];
    });
  };

  Chart.prototype.set = function (x, y) {
    var self = this;
    charts.forEach(function (other) {
      if (other !== self && !(self.link && other.link === self.link)) { return; }
      var factor = self.unit / other.unit;
      other.x.low = x[0] * factor; other.x.high = x[1] * factor;
      if (other === self) { other.y.low = y[0]; other.y.high = y[1]; }
      other.draw();
    });
  };

  Chart.prototype.reset = function () {
    var self = this;
    charts.forEach(function (other) {
      if (other !== self && !(self.link && other.link === self.link)) { return; }
      other.x.low = other.x.whole[0]; other.x.high = other.x.whole[1];
      other.y.low = other.y.whole[0]; other.y.high = other.y.whole[1];
      other.draw();
    });
  };

  // A place in units of the picture.
  Chart.prototype.place = function (event) {
    var box = this.svg.getBoundingClientRect(), view = this.svg.viewBox.baseVal;
    return [(event.clientX - box.left) / box.width * view.width, (event.clientY - box.top) / box.height * view.height];
  };

  Chart.prototype.isInside = function (at) {
    return at[0] >= this.left && at[0] <= this.right && at[1] >= this.top && at[1] <= this.bottom;
  };

  // The value of every curve next to a place.
  Chart.prototype.look = function (at) {
    var m = this.matrix(), self = this, lines = [], seen = [];
    var drawn = (at[0] - m[2]) / m[0];
    this.svg.querySelectorAll('.series').forEach(function (group) {
      if (group.style.display === 'none') { return; }
      var points = self.curve(group);
      if (!points.length) { return; }
      var low = 0, high = points.length - 1;
      while (high - low > 1) {
        var middle = (low + high) >> 1;
        if (points[middle][0] < drawn) { low = middle; } else { high = middle; }
      }
      var point = drawn - points[low][0] < points[high][0] - drawn ? points[low] : points[high];
      var px = m[0] * point[0] + m[2], py = m[1] * point[1] + m[3];
      seen.push([px, py]);
      lines.push([group.getAttribute('data-name') || 'value', shown(self.y.value(self.innerY(py)), self.y.high - self.y.low), px]);
    });
    return { lines: lines, seen: seen };
  };

  Chart.prototype.listen = function () {
    var self = this, svg = this.svg, begin = null, view = null, isMoving = false;
    var over = element('g', { 'class': 'over', 'pointer-events': 'none' }, svg);
    var tip = document.createElement('div');
    tip.className = 'tip';
    tip.hidden = true;
    svg.parentNode.appendChild(tip);
    svg.style.touchAction = 'pan-y';

    function tell(at) {
      over.textContent = '';
      if (!self.isInside(at)) { tip.hidden = true; return; }
      var found = self.look(at);
      element('line', { 'class': 'mark', x1: at[0], x2: at[0], y1: self.top, y2: self.bottom }, over);
      found.seen.forEach(function (place) { element('circle', { 'class': 'axis', cx: place[0], cy: place[1], r: 3.5 }, over); });
      tip.textContent = '';
      var x = found.lines.length ? found.lines[0][2] : at[0];
      var row = document.createElement('div');
      row.textContent = shown(self.x.value(self.innerX(x)), self.x.high - self.x.low) + (self.unitName ? ' ' + self.unitName : '');
      tip.appendChild(row);
      found.lines.forEach(function (line) {
        var row = document.createElement('div');
        row.textContent = line[0] + ': ' + line[1];
        tip.appendChild(row);
      });
      tip.hidden = false;
      var box = svg.getBoundingClientRect(), outer = svg.parentNode.getBoundingClientRect();
      var left = box.left - outer.left + at[0] / svg.viewBox.baseVal.width * box.width + 12;
      tip.style.left = Math.max(0, Math.min(left, outer.width - tip.offsetWidth - 4)) + 'px';
      tip.style.top = (box.top - outer.top + at[1] / svg.viewBox.baseVal.height * box.height + 12) + 'px';
    }

    svg.addEventListener('pointermove', function (event) {
      var at = self.place(event);
      if (!begin) { tell(at); return; }
      if (isMoving) {
        var dx = (at[0] - begin[0]) / (self.right - self.left) * (view[1] - view[0]);
        var dy = (at[1] - begin[1]) / (self.bottom - self.top) * (view[3] - view[2]);
        self.set([view[0] - dx, view[1] - dx], [view[2] + dy, view[3] + dy]);
        return;
      }
      over.textContent = '';
      element('rect', {
        'class': 'chosen', x: Math.min(at[0], begin[0]), y: Math.min(at[1], begin[1]),
        width: Math.abs(at[0] - begin[0]), height: Math.abs(at[1] - begin[1])
      }, over);
    });
    svg.addEventListener('pointerleave', function () { if (!begin) { over.textContent = ''; tip.hidden = true; } });
    svg.addEventListener('pointerdown', function (event) {
      var at = self.place(event);
      if (event.button !== 0 || event.pointerType === 'touch' || !self.isInside(at)) { return; }
      begin = at;
      isMoving = event.shiftKey;
      view = [self.x.low, self.x.high, self.y.low, self.y.high];
      tip.hidden = true;
      if (event.isTrusted) { svg.setPointerCapture(event.pointerId); }
      event.preventDefault();
    });
    svg.addEventListener('pointerup', function (event) {
      if (!begin) { return; }
      var at = self.place(event), from = begin;
      begin = null;
      over.textContent = '';
      var width = Math.abs(at[0] - from[0]), height = Math.abs(at[1] - from[1]);
      if (isMoving || width < 6) { return; }
      var clamp = function (value, low, high) { return Math.max(low, Math.min(high, value)); };
      var x = [from[0], at[0]].map(function (px) { return self.innerX(clamp(px, self.left, self.right)); }).sort(function (a, b) { return a - b; });
      // A flat box zooms the time alone.
      var y = height < 12 ? [self.y.low, self.y.high]
        : [from[1], at[1]].map(function (py) { return self.innerY(clamp(py, self.top, self.bottom)); }).sort(function (a, b) { return a - b; });
      self.set(x, y);
    });
    svg.addEventListener('dblclick', function () { self.reset(); });
    svg.addEventListener('wheel', function (event) {
      var at = self.place(event);
      if (!event.ctrlKey || !self.isInside(at)) { return; }
      event.preventDefault();
      var factor = Math.pow(1.2, event.deltaY > 0 ? 1 : -1), x = self.innerX(at[0]), y = self.innerY(at[1]);
      self.set([x + (self.x.low - x) * factor, x + (self.x.high - x) * factor], [y + (self.y.low - y) * factor, y + (self.y.high - y) * factor]);
    }, { passive: false });
    svg.querySelectorAll('.legend').forEach(function (entry) {
      entry.style.cursor = 'pointer';
      entry.addEventListener('click', function () {
        var group = svg.querySelector('.series[data-of="' + entry.getAttribute('data-of') + '"]');
        var isHidden = group.style.display === 'none';
        group.style.display = isHidden ? '' : 'none';
        entry.style.opacity = isHidden ? '' : '0.4';
      });
    });
  };

  document.querySelectorAll('svg.chart[data-frame]').forEach(function (svg) { charts.push(new Chart(svg)); });
  if (charts.length) {
    var hint = document.createElement('p');
    hint.className = 'hint';
    hint.textContent = 'Charts: point at them for values, drag to zoom, hold Shift and drag to move, double-click to go back, click a name to hide its curve.';
    document.querySelector('main').insertBefore(hint, document.querySelector('footer'));
  }
}());
